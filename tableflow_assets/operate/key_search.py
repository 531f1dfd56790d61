"""All records of one key, as a person typed it, under every spelling that it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.base.errors import TopicNotFound, UnsupportedSchema
from tableflow_assets.decode.key_text import Form, key_spellings
from tableflow_assets.decode.keys import key_hash
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.schemas import key_of
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.reader import read_records
from tableflow_assets.table.keyed.forgotten import has_key
from tableflow_assets.table.keyed.key_files import Key
from tableflow_assets.table.ledger import Ledger

OFFSETS_SHOWN = 5


@dataclass(frozen=True)
class InLog:
    """Records of the key in one Kafka partition; ``unread``: beyond where the table has read."""

    partition: int
    records: int
    unread: int
    first_offsets: tuple[int, ...]


class KeySearch:
    """``key`` grows with every spelling that a search comes across."""

    def __init__(self, pipeline: Pipeline, ledger: Ledger, typed: str, form: Form) -> None:
        self.pipeline, self.ledger = pipeline, ledger
        self.keys = _keys_of(pipeline)
        self.key = self._key(key_spellings(typed, form, self.keys))

    def count(self, rows: DataFrame) -> int:
        """How many rows have the key; they need a column ``key``."""
        counts = self._of_key(rows).groupBy("key", "bytes").count().collect()
        self._add_spellings(counts)
        return sum(row["count"] for row in counts)

    def in_log(self) -> tuple[InLog, ...]:
        log = self.pipeline.log
        try:
            topic = log.identify(self.pipeline.topic.name)
        except TopicNotFound:
            return ()
        earliest, end = log.earliest(topic), log.end(topic)
        plan = Plan(topic, tuple(OffsetRange(p, earliest[p], end[p]) for p in topic.partitions))
        if not plan.size:
            return ()
        records = read_records(self.pipeline.spark, log, plan)
        sorted_offsets = F.array_sort(F.collect_list("offset"))
        rows = (
            self._of_key(records)
            .groupBy("partition", "key", "bytes")
            .agg(sorted_offsets.alias("offsets"))
            .collect()
        )
        self._add_spellings(rows)
        by_partition: dict[int, list[int]] = {}
        for row in rows:
            by_partition.setdefault(row["partition"], []).extend(row["offsets"])
        # Nothing has been read yet of a topic that was recreated.
        is_same = topic.topic_id == self.ledger.topic_id
        read = self.ledger.committed if is_same else {}
        return tuple(
            InLog(
                partition=partition,
                records=len(offsets),
                unread=sum(offset >= read.get(partition, 0) for offset in offsets),
                first_offsets=tuple(sorted(offsets)[:OFFSETS_SHOWN]),
            )
            for partition, offsets in sorted(by_partition.items())
        )

    def spellings(self) -> DataFrame:
        return self._as_data(self.key.spellings)

    def _key(self, spellings: tuple[bytes, ...]) -> Key:
        typed = self._as_data(spellings)  # must come first: functions need the session
        key = F.col("key")
        by_bytes, by_content = (
            _in_hex(key_hash(key, serialization)) for serialization in (Raw(), self.keys)
        )
        hash_rows = typed.select("key", by_bytes.alias("bytes"), by_content.alias("content"))
        hashed = {bytes(row["key"]): row for row in hash_rows.collect()}
        # The newest version's first.
        contents = [hashed[spelling]["content"] for spelling in spellings]
        content = next((text for text in contents if text), None)
        # An older version may give another key, where a field had another default.
        same_key = [s for s in spellings if hashed[s]["content"] in (None, content)]
        hashes = {hashed[s]["bytes"] for s in same_key} | ({content} if content else set())
        return Key(frozenset(same_key), frozenset(hashes))

    def _of_key(self, records: DataFrame) -> DataFrame:
        matches = records.filter(has_key(F.col("key"), sorted(self.key.hashes), self.keys))
        return matches.withColumn("bytes", _in_hex(key_hash(F.col("key"), Raw())))

    def _add_spellings(self, rows: list[Any]) -> None:
        """Add the spellings that were found by the key's content."""
        self.key = Key(
            self.key.spellings | {bytes(row["key"]) for row in rows},
            self.key.hashes | {row["bytes"] for row in rows},
        )

    def _as_data(self, spellings: Iterable[bytes]) -> DataFrame:
        """Not as text in a query: plans are written to logs."""
        return self.pipeline.spark.createDataFrame(
            [(spelling,) for spelling in spellings], "key binary"
        )


def _keys_of(pipeline: Pipeline) -> Serialization:
    try:
        return key_of(pipeline.topic, pipeline.registry)
    except UnsupportedSchema:
        if pipeline.topic.is_keyed:
            raise
        return Raw()  # a table of records keeps keys as bytes, whatever their schema


def _in_hex(column: Column) -> Column:
    return F.lower(F.hex(column))
