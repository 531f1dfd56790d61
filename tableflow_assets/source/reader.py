"""Reads exactly a plan's offsets, inside Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.log import Log
from tableflow_assets.source.plain_reader import SCHEMA, read_plainly
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.timestamps import (
    EARLIEST,
    FIRST_WITHOUT_MICROSECONDS_MS,
    LATEST,
    milliseconds_of,
)


def read_records(spark: SparkSession, log: Log, plan: Plan) -> DataFrame:
    """Columns key, value, topic, partition, offset, timestamp, headers; one row per record."""
    ranges = [offsets for offsets in plan.ranges if offsets.size]
    # Spark's reader counts in microseconds, and fails on a timestamp that has too many of them.
    overflows = log.first_from(plan.topic, FIRST_WITHOUT_MICROSECONDS_MS)
    by_spark = [r for r in ranges if not _holds(r, overflows.get(r.partition))]
    plainly = [r for r in ranges if r not in by_spark]
    if not plainly:
        return read_in_spark(spark, log.access, plan.topic.name, by_spark)
    records = spark.createDataFrame(read_plainly(log.access, plan.topic.name, plainly))
    if not by_spark:
        return records
    others = read_in_spark(spark, log.access, plan.topic.name, by_spark)
    return others.select(*SCHEMA.names).union(records)


def _holds(offsets: OffsetRange, first_overflow: int | None) -> bool:
    """Whether the range may hold such a record: where the first one is, is all that Kafka says."""
    return first_overflow is not None and first_overflow < offsets.end


def read_in_spark(
    spark: SparkSession, access: KafkaAccess, topic: str, ranges: Sequence[OffsetRange]
) -> DataFrame:
    def as_json(offset_of: Callable[[OffsetRange], int]) -> str:
        return json.dumps({topic: {str(r.partition): offset_of(r) for r in ranges}})

    return (
        spark.read.format("kafka")
        .options(**access.spark_options())
        .option("kafka.isolation.level", "read_committed")
        # Spark reads to each partition's end, where the broker would wait half a second for more.
        .option("kafka.fetch.max.wait.ms", "20")
        .option("assign", json.dumps({topic: [r.partition for r in ranges]}))
        .option("startingOffsets", as_json(lambda r: r.start))
        .option("endingOffsets", as_json(lambda r: r.end))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .load()
        .withColumn("timestamp", _within_range(F.col("timestamp")))
    )


def _within_range(timestamp: Column) -> Column:
    earliest, latest = (
        F.timestamp_millis(F.lit(milliseconds_of(limit))) for limit in (EARLIEST, LATEST)
    )
    return F.greatest(F.least(timestamp, latest), earliest)
