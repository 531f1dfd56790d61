"""Records that could not be decoded, kept complete beside the topic's table until they can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.decode.framing import named_id
from tableflow_assets.decode.problems import EXPLAINED, KEY_PREFIX, explanation
from tableflow_assets.table.dropped import dropped_in_all, is_before, is_dropped, without_dropped
from tableflow_assets.table.ledger import Entry

RECORD = ("partition", "offset", "timestamp", "key", "value", "headers")
PLACE = ("partition", "offset")
FORSAKEN_AFTER_DAYS = 7  # longer than any rebuild, which would have seen them again by now
_COLUMNS = """
    topic_id STRING COMMENT 'Kafka id of the topic, which a recreated topic does not share',
    partition INT, offset BIGINT, timestamp TIMESTAMP,
    key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
    lineage STRING COMMENT 'The rebuild of the table that passed over it; empty: none',
    skipped BOOLEAN COMMENT 'Only its place is kept: the topic is set to skip such records',
    error STRING COMMENT 'Why the record could not be decoded',
    run_id STRING COMMENT 'The run that saw it first',
    first_seen TIMESTAMP, last_seen TIMESTAMP
"""
# Columns that older tables lack.
_LATER_COLUMNS = {
    "schema_id": "BIGINT COMMENT 'The schema that the header of the value names, known or not'",
    "message": "STRING COMMENT 'What the error means, in a sentence'",
    "replay_id": (
        "STRING COMMENT 'The replay that took it up last; it became a row if the ledger knows it'"
    ),
}
# A record may have 10 MB. Parquet's writer checks its memory only every so many rows, and a reader loads
# a whole row group: so check at every row, and keep row groups small.
_PROPERTIES = {
    "write.parquet.row-group-check-min-record-count": 1,
    "write.parquet.row-group-check-max-record-count": 100,
    "write.parquet.row-group-size-bytes": 32 * 2**20,
}


def ensure_dead_letter_table(
    spark: SparkSession, dead_table: str, location: str | None = None
) -> None:
    """``location``: where to create it, if it does not exist yet; None: the catalog chooses."""
    # The settings allow no quotes in a location.
    location_clause = f" LOCATION '{location}'" if location else ""
    later = ", ".join(f"{name} {kind}" for name, kind in _LATER_COLUMNS.items())
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in _PROPERTIES.items())
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS {dead_table} ({_COLUMNS}, {later}) USING iceberg"
        f"{location_clause} TBLPROPERTIES ({properties})"
    )
    existing = spark.table(dead_table).columns
    missing = [f"{name} {kind}" for name, kind in _LATER_COLUMNS.items() if name not in existing]
    if missing:
        spark.sql(f"ALTER TABLE {dead_table} ADD COLUMNS ({', '.join(missing)})")
        spark.sql(f"ALTER TABLE {dead_table} SET TBLPROPERTIES ({properties})")


def keep_dead_letters(
    spark: SparkSession,
    dead: DataFrame,
    dead_table: str,
    entry: Entry,
    is_skipped: bool,
    location: str | None = None,
) -> None:
    """Write the records that a commit is about to pass over.

    This happens before the commit, and again if the commit fails: a record is identified by its place
    in the log, so the second time only updates ``last_seen`` and the error. What has been kept stays: a
    run that is set to skip removes nothing that another run has kept.
    """
    ensure_dead_letter_table(spark, dead_table, location)
    content = ("key", "value", "headers")
    letters = dead.select(
        F.lit(entry.topic_id).alias("topic_id"),
        F.lit(entry.lineage).alias("lineage"),
        F.lit(is_skipped).alias("skipped"),
        *("partition", "offset", "timestamp"),
        *(F.when(F.lit(not is_skipped), F.col(name)).alias(name) for name in content),
        F.col("problem").alias("error"),
        _message(F.col("problem")).alias("message"),
        named_id(F.col("value")).alias("schema_id"),
        F.lit(entry.run_id).alias("run_id"),
    )
    columns = ", ".join(letters.columns)
    values = ", ".join(f"seen.{name}" for name in letters.columns)
    updates = ", ".join(f"{name} = seen.{name}" for name in ("error", "message", "schema_id"))
    backfills = ", ".join(f"{name} = coalesce(kept.{name}, seen.{name})" for name in content)
    with named_view(spark, letters) as view:
        spark.sql(
            f"""
            MERGE INTO {dead_table} AS kept USING {view} AS seen
            ON kept.partition = seen.partition AND kept.offset = seen.offset
                AND {_of_table(entry, "kept.")} AND {_in_range(entry, "kept.")}
            WHEN MATCHED THEN UPDATE SET {updates}, {backfills},
                skipped = kept.skipped AND seen.skipped, last_seen = current_timestamp()
            WHEN NOT MATCHED THEN INSERT ({columns}, first_seen, last_seen)
            VALUES ({values}, current_timestamp(), current_timestamp())
            """  # noqa: S608  (the table's name is made of settings that allow only [a-z0-9_])
        )


def letters_aside(spark: SparkSession, dead_table: str, entry: Entry) -> DataFrame:
    """The letters of the table's current lineage that have not become rows, skipped ones included.

    Without those that retention dropped. With those beyond what the table has read: a run has kept
    them and has not committed, or not yet.
    """
    aside = spark.table(dead_table).filter(
        f"{_of_table(entry)} AND NOT {_is_one_of('replay_id', entry.replays)}"
    )
    return without_dropped(aside, entry)


def letters_to_replay(spark: SparkSession, dead_table: str, entry: Entry) -> DataFrame:
    """As above, but only complete records that the table has passed over for good."""
    aside = letters_aside(spark, dead_table, entry)
    return aside.filter(f"NOT coalesce(skipped, false) AND {is_before(entry.end)}")


def letters_marked(spark: SparkSession, dead_table: str, entry: Entry, replay_id: str) -> DataFrame:
    marked = f"{_of_table(entry)} AND replay_id = {_text(replay_id)}"
    return without_dropped(spark.table(dead_table).filter(marked), entry)


def replays_of_letters(spark: SparkSession, dead_table: str) -> set[str]:
    """The replays that letters bear, whether or not they became rows."""
    borne = spark.table(dead_table).select("replay_id").filter("replay_id IS NOT NULL")
    return {row["replay_id"] for row in borne.distinct().collect()}


def letters_older_than(
    spark: SparkSession, dead_table: str, entry: Entry, before: int
) -> DataFrame:
    """The letters for retention to drop now; ``before`` in milliseconds since 1970."""
    aside = letters_aside(spark, dead_table, entry)
    return aside.filter(f"timestamp < timestamp_millis({before}) AND {is_before(entry.end)}")


def delete_dropped_letters(
    spark: SparkSession, dead_table: str, entry: Entry, entries: Sequence[Entry], before: int
) -> int:
    """Delete dropped letters that no snapshot needs any more: a rollback brings none of them back.

    ``entries``: of all existing snapshots; ``entry`` is the newest. Letters of a lineage that no
    snapshot has go by their age alone, unless a rebuild that has only begun may have written them.
    """
    same_lineage = [e for e in entries if _of_table(e) == _of_table(entry)]
    dropped = is_dropped(dropped_in_all((entry, *same_lineage)))
    lineages = sorted({_of_table(e) for e in (entry, *entries)})
    of_none = " AND ".join(f"NOT ({lineage})" for lineage in lineages)
    forsaken = f"last_seen < current_timestamp() - INTERVAL {FORSAKEN_AFTER_DAYS} DAYS"
    doomed = (
        f"({_of_table(entry)} AND {dropped})"
        f" OR ({of_none} AND timestamp < timestamp_millis({before}) AND {forsaken})"
    )
    count = spark.table(dead_table).filter(doomed).count()
    if count:
        spark.sql(f"DELETE FROM {dead_table} WHERE {doomed}")  # noqa: S608  (as above)
    return count


def mark(
    spark: SparkSession, dead_table: str, places: DataFrame, entry: Entry, replay_id: str
) -> None:
    """Claim the letters at these places for a replay.

    Not those that a later replay has claimed (ids grow): this one has then lost its turn without knowing
    it yet, and must not take them away from the other.
    """
    is_free = (
        f"kept.replay_id IS NULL OR (kept.replay_id < {_text(replay_id)}"
        f" AND NOT {_is_one_of('kept.replay_id', entry.replays)})"
    )
    with named_view(spark, places) as view:
        spark.sql(
            f"""
            MERGE INTO {dead_table} AS kept USING {view} AS chosen
            ON kept.partition = chosen.partition AND kept.offset = chosen.offset
                AND {_of_table(entry, "kept.")}
            WHEN MATCHED AND ({is_free}) THEN UPDATE SET replay_id = {_text(replay_id)}
            """
        )


def without_letters(
    spark: SparkSession, records: DataFrame, dead_table: str, entry: Entry
) -> DataFrame:
    """Leave out the records that are dead letters: a letter becomes a row only by replay.

    Needed wherever the log is read again: a schema may have been registered meanwhile, and the record
    would be both a row and a letter.
    """
    ensure_dead_letter_table(spark, dead_table)  # an old one may lack a column
    aside = letters_aside(spark, dead_table, entry).select(*PLACE)
    return records.join(aside, list(PLACE), "left_anti")


def see_again(spark: SparkSession, dead_table: str, entry: Entry) -> None:
    """Update ``last_seen`` of the letters in the offsets that the entry passes over."""
    passed_over = [
        f"(partition = {p} AND offset >= {start} AND offset < {end})"
        for p, (start, end) in entry.read.items()
    ]
    spark.sql(
        f"UPDATE {dead_table} SET last_seen = current_timestamp()"  # noqa: S608  (as above)
        f" WHERE {_of_table(entry)} AND ({' OR '.join([*passed_over, 'false'])})"
    )


def _message(problem: Column) -> Column:
    classes = [*EXPLAINED, *(f"{KEY_PREFIX}{name}" for name in EXPLAINED)]
    pairs = (text for name in classes for text in (name, explanation(name)))
    explained = F.create_map(*map(F.lit, pairs))
    return F.try_element_at(explained, problem)


def _of_table(entry: Entry, prefix: str = "") -> str:
    """Letters of an earlier lineage of the table, or of a topic since recreated, do not count."""
    topic_id, lineage = _text(entry.topic_id), _text(entry.lineage)
    return f"{prefix}topic_id = {topic_id} AND {prefix}lineage = {lineage}"


def _in_range(entry: Entry, prefix: str) -> str:
    """The entry's offsets, so that the files of older letters need not be read."""
    first = min((start for start, _ in entry.read.values()), default=0)
    end = max((end for _, end in entry.read.values()), default=0)
    return f"{prefix}offset >= {first} AND {prefix}offset < {end}"


def _is_one_of(column: str, values: Iterable[str]) -> str:
    """False for null, which is none of them."""
    literals = ", ".join(_text(value) for value in values)
    return f"coalesce({column} IN ({literals}), false)" if literals else "false"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
