"""Erased records are still in the log: no later run and no rebuild may bring them back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.keys import key_hash
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.table.ledger import Entry, Forgotten


def without_forgotten(records: DataFrame, entry: Entry, keys: Serialization) -> DataFrame:
    if not entry.forgotten:
        return records
    erased = reduce(or_, (_is_erased(one, keys) for one in entry.forgotten))
    return records.filter(~F.coalesce(erased, F.lit(False)))


def has_key(key: Column, hashes: Iterable[str], keys: Serialization) -> Column:
    """Whether a record's key is the one with these hashes; null where there is no key.

    By its bytes as well as by its content: a rebuild in another mode, or from before the key had a
    schema, knows only the one or the other.
    """
    hashed = [key_hash(key, one) for one in (Raw(), keys)]
    wanted = [F.lit(bytes.fromhex(one)) for one in hashes]
    is_one = [F.coalesce(known == one, F.lit(False)) for known in hashed for one in wanted]
    return F.when(key.isNotNull(), reduce(or_, is_one, F.lit(False)))


def _is_erased(one: Forgotten, keys: Serialization) -> Column:
    before = [
        (F.col("partition") == partition) & (F.col("offset") < offset)
        for partition, offset in one.before.items()
    ]
    return has_key(F.col("key"), [one.key_hash], keys) & reduce(or_, before, F.lit(False))


def with_forgotten(entry: Entry, hashes: Iterable[str]) -> tuple[Forgotten, ...]:
    """The entry's, and now also these, up to where the table has read."""
    new = {one: Forgotten(one, dict(entry.end)) for one in sorted(hashes)}
    return (*(one for one in entry.forgotten if one.key_hash not in new), *new.values())


def is_forgotten(entry: Entry, hashes: Iterable[str]) -> bool:
    """Whether the entry says already that they are erased, up to where the table has read."""
    return all(one in entry.forgotten for one in with_forgotten(entry, hashes))
