"""Offset by offset: is every record of the log in the table, exactly once?

This judges the write path, so it shares none of it: the log is read with a plain consumer, the table
with pyiceberg, and both become sets of offsets.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from pyiceberg.table import Table

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import ServerUnreachable
from tableflow_assets.source.log import Log
from tableflow_assets.table.dead_letters import SUFFIX
from tableflow_assets.table.ledger import Ledger, read_ledger

BATCH = 10_000
POLL_SECONDS = 0.1
SILENCE_SECONDS = 30  # no record and no end of partition for so long: the broker is not there
Int64s = npt.NDArray[np.int64]
Progress = Callable[[int], None]  # records read from the log since the last call


@dataclass(frozen=True)
class PartitionResult:
    """One Kafka partition, compared over the offsets [start, committed) that the log still holds."""

    topic: str
    partition: int
    start: int
    committed: int
    end: int
    expected: int
    rows: int
    dead_letters: int
    missing: int
    duplicated: int
    unexpected: int
    first_missing: int | None = None
    first_duplicated: int | None = None

    @property
    def ok(self) -> bool:
        return not (self.missing or self.duplicated or self.unexpected)

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"ok": self.ok}


def verify(
    log: Log,
    catalog: RestCatalog,
    topic: str,
    table_name: str,
    on_progress: Progress = lambda _: None,
) -> list[PartitionResult]:
    """Compare a topic with its table; an empty list where there is no table yet."""
    table = catalog.find(table_name)
    if table is None:
        return []
    ledger = read_ledger(table)
    identity = log.identify(topic)
    earliest, end = log.earliest(identity), log.end(identity)
    rows = _offsets(table, "_kafka.partition", "_kafka.offset")
    dead = _dead_letters(catalog, table_name, ledger)
    results = []
    for partition, committed in sorted(ledger.committed.items()):
        start = max(ledger.origin[partition], earliest.get(partition, 0))
        expected = _log_offsets(log, topic, partition, start, committed, on_progress)
        found = rows.get(partition, _NONE)
        letters = dead.get(partition, _NONE)
        results.append(
            _compare(
                PartitionPlace(topic, partition, start, committed, end.get(partition, 0)),
                expected,
                found[found >= start],  # older rows are beyond what the log can still prove
                letters[letters >= start],
            )
        )
    return results


@dataclass(frozen=True)
class PartitionPlace:
    topic: str
    partition: int
    start: int
    committed: int
    end: int


_NONE: Int64s = np.empty(0, dtype=np.int64)


def _compare(
    place: PartitionPlace, expected: Int64s, rows: Int64s, dead: Int64s
) -> PartitionResult:
    """A record is in its place when exactly one row or one dead letter has its offset."""
    found, times = np.unique(np.concatenate([rows, dead]), return_counts=True)
    missing = np.setdiff1d(expected, found, assume_unique=True)
    duplicated = found[times > 1]
    unexpected = np.setdiff1d(found, expected, assume_unique=True)
    return PartitionResult(
        **asdict(place),
        expected=len(expected),
        rows=len(rows),
        dead_letters=len(dead),
        missing=len(missing),
        duplicated=int((times[times > 1] - 1).sum()),
        unexpected=len(unexpected),
        first_missing=int(missing[0]) if len(missing) else None,
        first_duplicated=int(duplicated[0]) if len(duplicated) else None,
    )


def _dead_letters(catalog: RestCatalog, table_name: str, ledger: Ledger) -> dict[int, Int64s]:
    table = catalog.find(table_name + SUFFIX)
    if table is None:
        return {}
    # What lies at or beyond the ledger's end was kept ahead of a commit that did not happen.
    found = _offsets(table, "partition", "offset", f"topic_id = '{ledger.topic_id}'")
    return {
        partition: offsets[offsets < ledger.committed.get(partition, 0)]
        for partition, offsets in found.items()
    }


def _offsets(
    table: Table, partition: str, offset: str, where: str | None = None
) -> dict[int, Int64s]:
    scan = table.scan(selected_fields=(partition, offset))
    if where:
        scan = scan.filter(where)
    found = scan.to_arrow().flatten() if "." in partition else scan.to_arrow()
    partitions = _numbers(found, partition)
    offsets = _numbers(found, offset)
    return {int(p): offsets[partitions == p] for p in np.unique(partitions)}


def _numbers(table: pa.Table, column: str) -> Int64s:
    return table[column].to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _log_offsets(
    log: Log, topic: str, partition: int, start: int, committed: int, on_progress: Progress
) -> Int64s:
    """The offsets of all committed records in [start, committed)."""
    if start >= committed:
        return _NONE
    consumer = Consumer(
        {
            "bootstrap.servers": log.bootstrap_servers,
            "group.id": "tableflow-verify",  # required by the client; nothing is ever committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 262_144,
            "fetch.queue.backoff.ms": 10,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        return _consume(consumer, log.bootstrap_servers, committed, on_progress)
    finally:
        consumer.close()


def _consume(consumer: Consumer, address: str, committed: int, on_progress: Progress) -> Int64s:
    found: list[Int64s] = []
    last_heard = time.monotonic()
    while True:
        messages = consumer.consume(BATCH, timeout=POLL_SECONDS)
        faults = [fault for message in messages if (fault := message.error()) is not None]
        if any(fault.code() != KafkaError._PARTITION_EOF for fault in faults):
            raise KafkaException(faults[0])
        offsets = [message.offset() or 0 for message in messages if message.error() is None]
        batch = np.fromiter(offsets, dtype=np.int64, count=len(offsets))
        found.append(batch[batch < committed])
        on_progress(len(found[-1]))
        if faults or (offsets and offsets[-1] >= committed - 1):
            return np.concatenate(found)
        if messages:
            last_heard = time.monotonic()
        elif time.monotonic() - last_heard > SILENCE_SECONDS:
            raise ServerUnreachable("Kafka", address, f"silent for {SILENCE_SECONDS} s")
