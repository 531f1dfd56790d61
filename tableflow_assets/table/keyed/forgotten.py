"""Erased records are still in the log: no later run or rebuild may bring them back."""

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
    erased = reduce(or_, (_is_erased(forgotten, keys) for forgotten in entry.forgotten))
    return records.filter(~F.coalesce(erased, F.lit(False)))


def has_key(key: Column, hashes: Iterable[str], keys: Serialization) -> Column:
    """Whether a record's key is the one with these hashes; null where there is no key.

    By its bytes as well as by its content: a rebuild in another mode, or from before the key had a
    schema, has only one of the two.
    """
    record_hashes = [key_hash(key, serialization) for serialization in (Raw(), keys)]
    literals = [F.lit(bytes.fromhex(text)) for text in hashes]
    matches = [
        F.coalesce(record_hash == literal, F.lit(False))
        for record_hash in record_hashes
        for literal in literals
    ]
    return F.when(key.isNotNull(), reduce(or_, matches, F.lit(False)))


def _is_erased(forgotten: Forgotten, keys: Serialization) -> Column:
    before = [
        (F.col("partition") == partition) & (F.col("offset") < offset)
        for partition, offset in forgotten.before.items()
    ]
    return has_key(F.col("key"), [forgotten.key_hash], keys) & reduce(or_, before, F.lit(False))


def with_forgotten(entry: Entry, hashes: Iterable[str]) -> tuple[Forgotten, ...]:
    """The entry's erased keys, and now also these, up to where the table has read."""
    new = {text: Forgotten(text, dict(entry.end)) for text in sorted(hashes)}
    return (*(old for old in entry.forgotten if old.key_hash not in new), *new.values())


def is_forgotten(entry: Entry, hashes: Iterable[str]) -> bool:
    """Whether the entry already says that they are erased, up to where the table has read."""
    return all(erased in entry.forgotten for erased in with_forgotten(entry, hashes))
