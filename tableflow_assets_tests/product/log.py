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


def grouped(
    log: Iterable[Logged], topic: str, key: Callable[[Row], Hashable]
) -> dict[Any, list[Logged]]:
    """By key, the topic's records, in no particular order."""
    groups: dict[Any, list[Logged]] = {}
    for record in log:
        if record.topic == topic:
            groups.setdefault(key(record.value), []).append(record)
    return groups


def in_kafka_order(records: Sequence[Logged]) -> list[Row]:
    """Within a partition by offset, whatever the clocks say.

    Of several partitions, the one with the newest timestamp is the last; of the same timestamp, the
    higher one.
    """
    newest = {
        record.partition: max(
            other.timestamp_ms for other in records if other.partition == record.partition
        )
        for record in records
    }
    ordered = sorted(
        records, key=lambda record: (newest[record.partition], record.partition, record.offset)
    )
    return [record.value for record in ordered]


def first_in_kafka(records: Sequence[Logged]) -> Row:
    """Of the partition that began first (of those, the lowest), the record that came first."""
    oldest = min(records, key=lambda record: (record.timestamp_ms, record.partition)).partition
    in_partition = [record for record in records if record.partition == oldest]
    return min(in_partition, key=lambda record: record.offset).value


def last_by(log: Iterable[Logged], topic: str, key: Callable[[Row], Hashable]) -> dict[Any, Row]:
    """Of every key the row that Kafka has last."""
    groups = grouped(log, topic, key)
    return {name: in_kafka_order(records)[-1] for name, records in groups.items()}


def sorted_by(rows: Iterable[Row], *key: str) -> list[Row]:
    return sorted(rows, key=lambda row: [row[column] for column in key])


def log_of(*records: tuple[str, Row]) -> list[Logged]:
    """A log by hand: topics and values as they arrive, one millisecond apart, in one partition."""
    return [Logged(topic, 0, at, at, value) for at, (topic, value) in enumerate(records)]


def log_with_clocks(*records: tuple[int, tuple[str, Row]]) -> list[Logged]:
    """As above, with the timestamps that the senders' clocks gave."""
    return [
        Logged(topic, 0, at, timestamp_ms, value)
        for at, (timestamp_ms, (topic, value)) in enumerate(records)
    ]
