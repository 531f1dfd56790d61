"""Reads exactly a plan's offsets, inside Spark."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.plan import OffsetRange, Plan


def read_records(spark: SparkSession, access: KafkaAccess, plan: Plan) -> DataFrame:
    """Columns key, value, topic, partition, offset, timestamp, headers; one row per record."""
    ranges = [offsets for offsets in plan.ranges if offsets.size]
    topic = plan.topic.name

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
    )
