"""Records that could not be decoded, kept whole beside the topic's table until they can be."""

from __future__ import annotations

import uuid

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.errors import CommitConflict
from tableflow_assets.spark_session import spark_is_away
from tableflow_assets.table.commit import LOST_RACE
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.names import DEAD_LETTER_SUFFIX

SUFFIX = DEAD_LETTER_SUFFIX

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


def keep_dead_letters(
    spark: SparkSession, dead: DataFrame, dead_table: str, entry: Entry, is_skipped: bool
) -> None:
    """Write the records that a commit is about to pass over.

    This comes before that commit, and may come again if the commit then fails: a record is known by
    its place in the log, so the second time only moves ``last_seen``.
    """
    spark.sql(f"CREATE TABLE IF NOT EXISTS {dead_table} ({_COLUMNS}) USING iceberg")
    content = ("key", "value", "headers")
    letters = dead.select(
        F.lit(entry.topic_id).alias("topic_id"),
        F.lit(entry.lineage).alias("lineage"),
        F.lit(is_skipped).alias("skipped"),
        *("partition", "offset", "timestamp"),
        *(F.when(F.lit(not is_skipped), F.col(name)).alias(name) for name in content),
        F.col("problem").alias("error"),
        F.lit(entry.run_id).alias("run_id"),
    )
    view = f"tableflow_dead_letters_{uuid.uuid4().hex}"  # sessions are shared by threads
    letters.createOrReplaceTempView(view)
    same = " AND ".join(
        f"kept.{n} = seen.{n}" for n in ("topic_id", "lineage", "partition", "offset")
    )
    columns = ", ".join(letters.columns)
    values = ", ".join(f"seen.{name}" for name in letters.columns)
    try:
        spark.sql(
            f"""
            MERGE INTO {dead_table} AS kept USING {view} AS seen ON {same}
            WHEN MATCHED THEN UPDATE SET last_seen = current_timestamp()
            WHEN NOT MATCHED THEN INSERT ({columns}, first_seen, last_seen)
            VALUES ({values}, current_timestamp(), current_timestamp())
            """  # noqa: S608  (the table's name is made of settings that allow only [a-z0-9_])
        )
    except PySparkException as error:
        if any(words in str(error) for words in (*LOST_RACE, "conflicting files")):
            raise CommitConflict(
                f"Another run kept the same dead letters in {dead_table} at the same moment.",
                "Nothing was written twice or lost: run again.",
            ) from error
        raise spark_is_away(error) or error from error
    spark.catalog.dropTempView(view)
