"""Reads exactly a plan's offsets, inside Spark, by our own Java (``jvm/tableflow/KafkaRecords.java``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import OffsetRange, Plan

FORMAT = "tableflow.KafkaRecords"
# A task costs some milliseconds and a consumer, a record a few microseconds: so many belong together.
RECORDS_OF_A_TASK = 20_000


def read_records(spark: SparkSession, log: Log, plan: Plan) -> DataFrame:
    """Columns key, value, topic, partition, offset, timestamp, headers; one row per committed record."""
    return read_in_spark(spark, log.access, plan.topic.name, plan.ranges)


def read_in_spark(
    spark: SparkSession, access: KafkaAccess, topic: str, ranges: Sequence[OffsetRange]
) -> DataFrame:
    splits = [[[r.partition, r.start, r.end] for r in task] for task in tasks(ranges)]
    return (
        spark.read.format(FORMAT)
        .options(**access.spark_options())
        .option("topic", topic)
        .option("splits", json.dumps(splits))
        .load()
    )


def tasks(ranges: Sequence[OffsetRange]) -> Iterator[list[OffsetRange]]:
    """Ranges that one task reads: their number follows the records, not Kafka's partitions."""
    task: list[OffsetRange] = []
    records = 0
    for offsets in ranges:
        if not offsets.size:
            continue
        task.append(offsets)
        records += offsets.size
        if records >= RECORDS_OF_A_TASK:
            yield task
            task, records = [], 0
    if task:
        yield task
