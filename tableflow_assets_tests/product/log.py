"""What the oracle reads: a log of decoded Kafka records, and the order in which Kafka had them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Logged:
    """A record as it lies in Kafka: times are aware and in UTC, dates are dates."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    value: Row


def in_kafka_order(log: Sequence[Logged], topic: str) -> list[Row]:
    of_topic = [record for record in log if record.topic == topic]
    of_topic.sort(key=lambda record: (record.timestamp_ms, record.partition, record.offset))
    return [record.value for record in of_topic]


def last_by(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, Row]:
    """Of every key the row that comes last."""
    return {key(row): row for row in rows}


def sorted_by(rows: Iterable[Row], *key: str) -> list[Row]:
    return sorted(rows, key=lambda row: [row[column] for column in key])


def log_of(*records: tuple[str, Row]) -> list[Logged]:
    """A log by hand: topics and values as they arrive, one millisecond apart, in one partition."""
    return [Logged(topic, 0, at, at, value) for at, (topic, value) in enumerate(records)]
