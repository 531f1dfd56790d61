"""Reads a plan's offsets without Spark, for records with a timestamp that Spark's Kafka reader fails on.

Slower, and the records pass through this process; so only Kafka partitions that hold such a record are
read this way, and only while they hold it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.kafka_refusals import Complaints, is_about_a_partition
from tableflow_assets.source.plan import OffsetRange
from tableflow_assets.source.timestamps import moment_of

BATCH = 10_000
POLL_SECONDS = 0.05
SILENCE_SECONDS = 30  # without a record or the end of a partition: the broker is gone
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def read_plainly(access: KafkaAccess, topic: str, ranges: Sequence[OffsetRange]) -> pa.Table:
    """The columns of Spark's Kafka reader that the path uses, one row per committed record."""
    complaints = Complaints(access)
    consumer = Consumer(_config(access) | {"error_cb": complaints})
    unread = {offsets.partition: offsets for offsets in ranges if offsets.size}
    consumer.assign([TopicPartition(topic, r.partition, r.start) for r in unread.values()])
    batches, last_read = [pa.RecordBatch.from_pylist([], SCHEMA)], time.monotonic()
    try:
        while unread:
            messages = consumer.consume(BATCH, timeout=POLL_SECONDS)
            if messages:
                batches.append(pa.RecordBatch.from_pylist(_rows(messages, unread), SCHEMA))
                last_read = time.monotonic()
                complaints.forget()
            elif time.monotonic() - last_read > SILENCE_SECONDS:
                raise complaints.error(f"silent for {SILENCE_SECONDS} s")
    finally:
        consumer.close()
    return pa.Table.from_batches(batches)


def _rows(messages: list[Message], unread: dict[int, OffsetRange]) -> list[dict[str, Any]]:
    """Those in range; a partition is done when its end, or a later record, is reached."""
    rows = []
    for message in filter(is_about_a_partition, messages):
        offset, fault = message.offset() or 0, message.error()
        if fault is not None and fault.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(fault)
        wanted = unread.get(message.partition() or 0)
        if wanted is None:
            continue
        if fault is None and wanted.start <= offset < wanted.end:
            rows.append(_row(message))
        if fault is not None or offset >= wanted.end - 1:
            del unread[wanted.partition]
    return rows


def _row(message: Message) -> dict[str, Any]:
    pairs: Any = message.headers() or ()  # their type hints allow too much
    headers = [{"key": name, "value": value} for name, value in pairs]
    return {
        "key": message.key(),
        "value": message.value(),
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": moment_of(message.timestamp()[1] * 1000),
        "headers": headers or None,  # as Spark's reader has it
    }


def _config(access: KafkaAccess) -> dict[str, Any]:
    return {
        **access.client_config(),
        "group.id": "tableflow-read",  # required by the client; nothing is ever committed
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 20,
        "log_level": 0,
    }
