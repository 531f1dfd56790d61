"""Which letters a replay can take, and what they become: rows, or changes in their order."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.decode.decode import Decoded, decode, judge
from tableflow_assets.decode.framing import HEADER_BYTES
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.unknown_ids import with_unknown_ids_classified
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.log import Offsets, TopicIdentity
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.reader import read_records
from tableflow_assets.source.timestamps import moment_of
from tableflow_assets.table.epochs import is_of_current_log
from tableflow_assets.table.keyed.forgotten import without_forgotten
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.letters.letters import (
    PLACE,
    RECORD,
    ensure_dead_letter_table,
    letters_aside,
    letters_marked,
    letters_to_replay,
)

_KEY = "__tableflow_key_hash"


@dataclass(frozen=True)
class Choice:
    """``places``: of the letters that can be replayed, persisted in Spark."""

    places: DataFrame
    count: int
    unreadable: dict[str, int]
    out_of_order: int


def choose(
    pipeline: Pipeline, topic: TopicIdentity, schemas: Schemas, entry: Entry, error: str | None
) -> Choice:
    if pipeline.catalog.find(pipeline.topic.dead_letter_table) is None:
        return Choice(pipeline.spark.range(0), 0, {}, 0)
    ensure_dead_letter_table(pipeline.spark, pipeline.dead_letter_table)
    letters = letters_to_replay(pipeline.spark, pipeline.dead_letter_table, entry)
    if error is not None:
        letters = letters.filter(F.col("error") == error)
    records = without_forgotten(letters.select(*RECORD), entry, schemas.key)
    judged = judge(records, schemas, pipeline.topic.mode)
    headers = [F.substring(name, 1, HEADER_BYTES).alias(name) for name in ("key", "value")]
    # Persisted, to decode only once, and so that marking does not read the table it changes.
    judged = judged.select(*PLACE, "problem", *headers).localCheckpoint()
    judged = with_unknown_ids_classified(judged, schemas.left_out, pipeline.registry.has_schema)
    counted = judged.groupBy("problem").count().collect()
    counts = {row["problem"]: row["count"] for row in counted}
    readable = counts.pop(None, 0)
    places = judged.filter(F.col("problem").isNull()).select(*PLACE)
    if not pipeline.topic.is_keyed or not readable:
        return Choice(places, readable, counts, 0)
    in_order = _still_in_log(pipeline, topic, places, entry).localCheckpoint()
    count = in_order.count()
    return Choice(in_order, count, counts, readable - count)


def letters_as_rows(
    pipeline: Pipeline, schemas: Schemas, table: Table, entry: Entry, replay_id: str
) -> Decoded:
    """One row per letter.

    Except for letters whose record is a row already: a run kept the letter and ended before its commit,
    then a later run, which knew more schemas, made a row of the record.
    """
    spark = pipeline.spark
    letters = letters_marked(spark, pipeline.dead_letter_table, entry, replay_id).select(*RECORD)
    records = without_forgotten(letters, entry, schemas.key)
    of_this_log = spark.table(pipeline.spark_table).filter(is_of_current_log(entry))
    rows = of_this_log.select("_kafka.partition", "_kafka.offset")
    existing = rows.filter(_from(_first_offsets(letters)))
    records = records.join(existing, list(PLACE), "left_anti")
    return decode(records, schemas, table.schema(), pipeline.topic.mode, entry.epoch)


def letters_as_changes(
    pipeline: Pipeline,
    topic: TopicIdentity,
    schemas: Schemas,
    table: Table,
    entry: Entry,
    replay_id: str,
) -> Decoded:
    """The letters' changes, and all changes of the same keys that may come after them.

    A table with keys has no record of the past, such as a deletion. So these changes are read from the
    log again: everything after a letter in its own partition and, for a key that has moved to another
    partition, everything there that is no older than the oldest letter.
    """
    spark, mode = pipeline.spark, pipeline.topic.mode
    letters = letters_marked(spark, pipeline.dead_letter_table, entry, replay_id)
    aside = letters_aside(spark, pipeline.dead_letter_table, entry)
    other_letters = aside.filter(~F.coalesce(F.col("replay_id") == replay_id, F.lit(False)))
    log = read_records(spark, pipeline.log, _range(pipeline, topic, letters, entry))
    records = without_forgotten(log, entry, schemas.key)
    records = records.join(other_letters.select(*PLACE), list(PLACE), "left_anti")
    decoded = decode(records, schemas, table.schema(), mode, entry.epoch)
    keys = judge(letters.select(*RECORD), schemas, mode).select(F.col("key_hash").alias(_KEY))
    same_key = F.col("_kafka.key_hash") == F.col(_KEY)
    return replace(decoded, rows=decoded.rows.join(keys.distinct(), same_key, "left_semi"))


def _still_in_log(
    pipeline: Pipeline, topic: TopicIdentity, places: DataFrame, entry: Entry
) -> DataFrame:
    """If the log has lost a letter's record, it may also lack what came after: a change, a deletion."""
    earliest = pipeline.log.earliest(topic)
    remaining = places.filter(_from(earliest))
    if not pipeline.log.is_compacted(topic.name):
        return remaining
    first = _first_offsets(remaining)
    ranges = tuple(OffsetRange(p, begin, entry.end[p]) for p, begin in sorted(first.items()))
    if not ranges:
        return remaining
    log = read_records(pipeline.spark, pipeline.log, Plan(topic, ranges))
    return remaining.join(log.select(*PLACE), list(PLACE), "left_semi")


def _range(pipeline: Pipeline, topic: TopicIdentity, letters: DataFrame, entry: Entry) -> Plan:
    first = _first_offsets(letters)
    oldest = letters.agg(F.min(F.unix_millis("timestamp")).alias("ms")).collect()[0]["ms"] or 0
    no_older = pipeline.log.at(topic, moment_of(oldest * 1000))
    earliest = pipeline.log.earliest(topic)
    if any(earliest[partition] > offset for partition, offset in first.items()):
        raise TableflowError(
            f"Records of {topic.name!r} expired during the replay.",
            "Nothing was changed. Run it again: it leaves them out.",
        )
    ranges = []
    for partition, end in sorted(entry.end.items()):
        begin = min(first.get(partition, end), no_older.get(partition, end), end)
        ranges.append(OffsetRange(partition, max(begin, entry.origin.get(partition, 0)), end))
    return Plan(topic, tuple(ranges))


def _first_offsets(letters: DataFrame) -> Offsets:
    rows = letters.groupBy("partition").agg(F.min("offset").alias("first")).collect()
    return {row["partition"]: row["first"] for row in rows}


def _from(begin: Offsets) -> str:
    """SQL: at these offsets or after them."""
    places = [f"(partition = {p} AND offset >= {offset})" for p, offset in sorted(begin.items())]
    return " OR ".join([*places, "false"])
