"""What Spark reads from Kafka by our own Java: exactly what a plain consumer sees of the same offsets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from pyspark.errors import PySparkException

from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.plan import OffsetRange
from tableflow_assets.source.reader import RECORDS_OF_A_TASK, read_in_spark, tasks
from tableflow_assets.source.timestamps import moment_of
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Record = tuple[Any, ...]


@pytest.fixture
def kafka(session_settings: Settings) -> str:
    return connections.kafka_address(session_settings)


@pytest.fixture
def other_topic(session_settings: Settings, kafka_topic: KafkaTopic) -> KafkaTopic:
    registry = connections.registry_address(session_settings)
    kafka = connections.kafka_address(session_settings)
    return KafkaTopic(kafka, registry, f"{kafka_topic.name}-other", partitions=7)


def ends_of(tableflow: Tableflow, topic: KafkaTopic) -> dict[int, int]:
    return tableflow.log.ends([topic.name])[topic.name]


def by_spark(tableflow: Tableflow, topic: KafkaTopic, ranges: list[OffsetRange]) -> list[Record]:
    rows = read_in_spark(tableflow.spark, tableflow.log.access, topic.name, ranges).collect()
    return sorted(
        ((row.partition, row.offset, row.timestamp.timestamp(), *_bytes(row)) for row in rows),
        key=lambda record: record[:2],
    )


def _bytes(row: Any) -> Record:
    headers = row.headers and [(h.key, h.value and bytes(h.value)) for h in row.headers]
    return row.key and bytes(row.key), row.value and bytes(row.value), headers


def by_consumer(kafka: str, topic: KafkaTopic, ranges: list[OffsetRange]) -> list[Record]:
    return sorted(
        (record for offsets in ranges for record in _consumed(kafka, topic.name, offsets)),
        key=lambda record: record[:2],
    )


def _consumed(kafka: str, topic: str, offsets: OffsetRange) -> Iterator[Record]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, offsets.partition, offsets.start)])
        while (message := consumer.poll(30)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return
            offset, headers = message.offset() or 0, message.headers()
            if offset >= offsets.end:
                return
            seconds = moment_of(message.timestamp()[1] * 1000).timestamp()
            pairs = headers and list(headers)
            yield (message.partition(), offset, seconds, message.key(), message.value(), pairs)
        raise AssertionError("the broker fell silent")


def whole(tableflow: Tableflow, topic: KafkaTopic) -> list[OffsetRange]:
    return [OffsetRange(partition, 0, end) for partition, end in ends_of(tableflow, topic).items()]


@pytest.mark.parametrize("stamped_by", ["CreateTime", "LogAppendTime"])
def test_all_codecs_headers_and_kinds_of_timestamps(
    tableflow: Tableflow, kafka: str, other_topic: KafkaTopic, stamped_by: str
) -> None:
    other_topic.configure({"message.timestamp.type": stamped_by})
    for codec in CODECS:
        producer = Producer(
            {"bootstrap.servers": kafka, "compression.type": codec, "linger.ms": 50}
        )
        for number in range(60):
            producer.produce(
                other_topic.name,
                partition=number % 7,
                key=None if number % 5 == 0 else f"key {number}",
                value=None if number % 11 == 0 else codec.encode() * number,
                headers=[("codec", codec), ("none", None), ("codec", b"again")]
                if number % 3
                else None,
                timestamp=0 if number % 2 else 1_700_000_000_123 + number,
            )
        assert producer.flush(30) == 0
    ranges = whole(tableflow, other_topic)

    records = by_spark(tableflow, other_topic, ranges)

    assert len(records) == 60 * len(CODECS)
    assert records == by_consumer(kafka, other_topic, ranges)


def test_only_committed_transactions_and_never_their_markers(
    tableflow: Tableflow, kafka: str, kafka_topic: KafkaTopic
) -> None:
    for number in range(6):
        kafka_topic.send_bytes([b"alone"], partition=0)
        producer = kafka_topic.send_in_transaction([b"%d" % number] * 3, partition=0)
        if number % 2:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    ranges = whole(tableflow, kafka_topic)  # the last offset is a marker's

    records = by_spark(tableflow, kafka_topic, ranges)

    assert [record[4] for record in records].count(b"alone") == 6
    assert len(records) == 6 + 3 * 3
    assert records == by_consumer(kafka, kafka_topic, ranges)


def test_each_range_is_read_from_its_start_to_before_its_end(
    tableflow: Tableflow, kafka: str, kafka_topic: KafkaTopic
) -> None:
    for partition in (0, 1):
        kafka_topic.send_bytes([b"%d" % number for number in range(50)], partition=partition)
    ranges = [OffsetRange(0, 7, 8), OffsetRange(1, 20, 45)]
    assert [record[:2] for record in by_spark(tableflow, kafka_topic, ranges)] == [
        (0, 7),
        *((1, offset) for offset in range(20, 45)),
    ]
    assert by_spark(tableflow, kafka_topic, [OffsetRange(0, 3, 3)]) == []


def test_offsets_that_have_expired_are_an_error(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send_bytes([b"a", b"b", b"c"], partition=0)
    kafka_topic.delete_records_before(0, 2)
    with pytest.raises(PySparkException, match="OffsetOutOfRange"):
        by_spark(tableflow, kafka_topic, [OffsetRange(0, 0, 3)])


def test_only_the_columns_that_are_asked_for_are_read(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send_bytes([b"a", b"b"], partition=1)
    access, ranges = tableflow.log.access, [OffsetRange(1, 0, 2)]
    records = read_in_spark(tableflow.spark, access, kafka_topic.name, ranges)
    assert records.count() == 2
    assert [tuple(row) for row in records.select("offset", "partition").collect()] == [
        (0, 1),
        (1, 1),
    ]


@pytest.mark.parametrize(
    ("sizes", "wanted"),
    [
        ([10] * 1000, [1000]),
        ([RECORDS_OF_A_TASK] * 3, [1, 1, 1]),
        ([RECORDS_OF_A_TASK // 2] * 5, [2, 2, 1]),
        ([0, 0, 5], [1]),
        ([0], []),
        ([], []),
    ],
)
def test_the_number_of_tasks_follows_the_records(sizes: list[int], wanted: list[int]) -> None:
    ranges = [OffsetRange(number, 100, 100 + size) for number, size in enumerate(sizes)]
    assert [len(task) for task in tasks(ranges)] == wanted
    assert [r for task in tasks(ranges) for r in task] == [r for r in ranges if r.size]
