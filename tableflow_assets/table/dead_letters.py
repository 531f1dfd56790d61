"""Records that could not be decoded, kept whole beside the topic's table until they can be."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.spark_session import named_view
from tableflow_assets.table.ledger import Entry

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
    same = " AND ".join(
        f"kept.{n} = seen.{n}" for n in ("topic_id", "lineage", "partition", "offset")
    )
    columns = ", ".join(letters.columns)
    values = ", ".join(f"seen.{name}" for name in letters.columns)
    with named_view(spark, letters) as view:
        spark.sql(
            f"""
            MERGE INTO {dead_table} AS kept USING {view} AS seen ON {same}
            WHEN MATCHED THEN UPDATE SET last_seen = current_timestamp()
            WHEN NOT MATCHED THEN INSERT ({columns}, first_seen, last_seen)
            VALUES ({values}, current_timestamp(), current_timestamp())
            """  # noqa: S608  (the table's name is made of settings that allow only [a-z0-9_])
        )
