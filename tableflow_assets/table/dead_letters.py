"""Records that could not be decoded, kept whole beside the topic's table until they can be."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.table.names import DEAD_LETTER_SUFFIX

SUFFIX = DEAD_LETTER_SUFFIX

_COLUMNS = """
    topic_id STRING COMMENT 'Kafka id of the topic, which a recreated topic does not share',
    partition INT, offset BIGINT, timestamp TIMESTAMP,
    key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>,
    error STRING COMMENT 'Why the record could not be decoded',
    run_id STRING COMMENT 'The run that saw it first',
    first_seen TIMESTAMP, last_seen TIMESTAMP
"""


def keep_dead_letters(
    spark: SparkSession, dead: DataFrame, dead_table: str, topic_id: str, run_id: str
) -> None:
    """Write the records that a commit is about to pass over.

    This comes before that commit, and may come again if the commit then fails: a record is known by
    its place in the log, so the second time only moves ``last_seen``.
    """
    spark.sql(f"CREATE TABLE IF NOT EXISTS {dead_table} ({_COLUMNS}) USING iceberg")
    letters = dead.select(
        F.lit(topic_id).alias("topic_id"),
        *("partition", "offset", "timestamp", "key", "value", "headers"),
        F.col("problem").alias("error"),
        F.lit(run_id).alias("run_id"),
    )
    view = "tableflow_dead_letters_of_this_commit"
    letters.createOrReplaceTempView(view)
    spark.sql(
        f"""
        MERGE INTO {dead_table} AS kept USING {view} AS seen
        ON kept.topic_id = seen.topic_id AND kept.partition = seen.partition
           AND kept.offset = seen.offset
        WHEN MATCHED THEN UPDATE SET last_seen = current_timestamp()
        WHEN NOT MATCHED THEN INSERT (topic_id, partition, offset, timestamp, key, value, headers,
            error, run_id, first_seen, last_seen)
        VALUES (seen.topic_id, seen.partition, seen.offset, seen.timestamp, seen.key, seen.value,
            seen.headers, seen.error, seen.run_id, current_timestamp(), current_timestamp())
        """  # noqa: S608  (the table's name is made of settings that allow only [a-z0-9_])
    )
