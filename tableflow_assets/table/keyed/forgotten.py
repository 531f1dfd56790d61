"""Erased records are still in the log: no later run or rebuild may bring them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.keys import key_hash
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.table.ledger import Entry, Forgotten

Erasures = tuple[Forgotten, ...]
# Beside a record's own columns: the hash of its key, and where the erasure of that key ends.
_HASH, _ERASED, _BEFORE = "__tableflow_hash", "__tableflow_erased", "__tableflow_before"


def without_forgotten(
    records: DataFrame, entry: Entry, keys: Serialization, begin: Mapping[int, int] | None = None
) -> DataFrame:
    """``begin``: the first offsets of the records, if known; most runs begin after all erasures.

    A join, because there may be thousands of keys in thousands of partitions.
    """
    erasures = entry.forgotten if begin is None else not_before(entry.forgotten, begin)
    if not erasures:
        return records
    rows = [(bytes.fromhex(erased.key_hash), erased.before) for erased in erasures]
    frame = records.sparkSession.createDataFrame(
        rows, f"{_ERASED} binary, {_BEFORE} map<int, bigint>"
    )
    is_erased = (F.col(_HASH) == F.col(_ERASED)) & (
        F.col("offset") < F.try_element_at(F.col(_BEFORE), F.col("partition"))
    )
    for record_hash in _record_hashes(F.col("key"), keys.for_records(records, "key")):
        hashed = records.withColumn(_HASH, record_hash)
        records = hashed.join(F.broadcast(frame), is_erased, "left_anti").drop(_HASH)
    return records


def has_key(key: Column, hashes: Iterable[str], keys: Serialization) -> Column:
    """Whether a record's key is the one with these hashes; null where there is no key."""
    literals = [bytes.fromhex(text) for text in hashes]
    by_bytes, *by_content = (
        F.coalesce(record_hash.isin(literals), F.lit(False))
        for record_hash in _record_hashes(key, keys)
    )
    matches = by_bytes | by_content[0] if by_content else by_bytes
    return F.when(key.isNotNull(), matches)


def _record_hashes(key: Column, keys: Serialization) -> list[Column]:
    """By its bytes as well as by its content.

    A rebuild in another mode, or from before the key had a schema, has only one of the two.
    """
    kinds = (Raw(),) if isinstance(keys, Raw) else (Raw(), keys)
    return [key_hash(key, serialization) for serialization in kinds]


def with_forgotten(entry: Entry, hashes: Iterable[str]) -> Erasures:
    """The entry's erased keys, and now also these, up to where the table has read."""
    new = {text: Forgotten(text, dict(entry.end)) for text in sorted(hashes)}
    return (*(old for old in entry.forgotten if old.key_hash not in new), *new.values())


def is_forgotten(entry: Entry, hashes: Iterable[str]) -> bool:
    """Whether the entry already says that they are erased, up to where the table has read."""
    return are_among(with_forgotten(entry, hashes), entry.forgotten)


def not_before(erasures: Erasures, begin: Mapping[int, int]) -> Erasures:
    """The part of these erasures that concerns records at or after these offsets."""
    remaining = (
        Forgotten(
            erased.key_hash, {p: to for p, to in erased.before.items() if to > begin.get(p, 0)}
        )
        for erased in erasures
    )
    return tuple(erased for erased in remaining if erased.before)


def are_among(erasures: Erasures, others: Erasures) -> bool:
    """Whether the others erase at least as much."""
    known = {other.key_hash: other.before for other in others}
    return all(
        to <= known.get(erased.key_hash, {}).get(partition, 0)
        for erased in erasures
        for partition, to in erased.before.items()
    )
