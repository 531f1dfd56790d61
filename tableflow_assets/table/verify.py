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
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from pyiceberg.table import Table

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import ServerUnreachable
from tableflow_assets.source.log import Log
from tableflow_assets.table.dead_letters import SUFFIX
from tableflow_assets.table.ledger import Ledger, read_ledger

BATCH = 10_000
POLL_SECONDS = 0.05
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
    *,
    newest_commit_only: bool = False,
    on_progress: Progress = lambda _: None,
) -> list[PartitionResult]:
    """Compare a topic with its table; an empty list where there is no table yet.

    All offsets that the table has read, or only those of its newest commit: quick enough for every
    run, whatever the topic's size.
    """
    table = catalog.find(table_name)
    if table is None:
        return []
    ledger = read_ledger(table)
    identity = log.identify(topic)
    earliest, end = log.earliest(identity), log.end(identity)
    begin = ledger.entry.start if newest_commit_only else ledger.origin
    # The smallest start of all partitions lets the scan leave out the files of older commits.
    oldest = min(begin.values(), default=0)
    rows = _offsets(table, "_kafka.partition", "_kafka.offset", f"_kafka.offset >= {oldest}")
    dead = _dead_letters(catalog, table_name, ledger)
    places = [
        PartitionPlace(
            topic, p, max(begin[p], earliest.get(p, 0)), ledger.committed[p], end.get(p, 0)
        )
        for p in sorted(ledger.committed)
    ]
    expected = _read_log(log, places, on_progress)
    results = []
    for place in places:
        found, letters = rows.get(place.partition, _NONE), dead.get(place.partition, _NONE)
        # Older rows are beyond this comparison, or beyond what the log can still prove.
        found, letters = found[found >= place.start], letters[letters >= place.start]
        results.append(_compare(place, expected[place.partition], found, letters))
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


def _offsets(table: Table, partition: str, offset: str, where: str) -> dict[int, Int64s]:
    scan = table.scan(row_filter=where, selected_fields=(partition, offset))
    found = scan.to_arrow().flatten() if "." in partition else scan.to_arrow()
    partitions = _numbers(found, partition)
    offsets = _numbers(found, offset)
    return {int(p): offsets[partitions == p] for p in np.unique(partitions)}


def _numbers(table: pa.Table, column: str) -> Int64s:
    return table[column].to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _read_log(log: Log, places: list[PartitionPlace], on_progress: Progress) -> dict[int, Int64s]:
    """Per partition, the offsets of all committed records in [start, committed)."""
    unread = {place.partition: place for place in places if place.start < place.committed}
    found: dict[int, list[int]] = {place.partition: [] for place in places}
    consumer = _consumer(log.bootstrap_servers)
    consumer.assign([TopicPartition(p.topic, p.partition, p.start) for p in unread.values()])
    last_heard = time.monotonic()
    try:
        while unread:
            messages = consumer.consume(BATCH, timeout=POLL_SECONDS)
            for message in messages:
                _note(message, found, unread)
            on_progress(len(messages))
            if messages:
                last_heard = time.monotonic()
            elif time.monotonic() - last_heard > SILENCE_SECONDS:
                raise ServerUnreachable(
                    "Kafka", log.bootstrap_servers, f"silent for {SILENCE_SECONDS} s"
                )
    finally:
        consumer.close()
    return {partition: np.array(offsets, dtype=np.int64) for partition, offsets in found.items()}


def _note(message: Message, found: dict[int, list[int]], unread: dict[int, PartitionPlace]) -> None:
    """Count a record in; a partition is read when its end, or a later record, has come by."""
    partition, offset, fault = message.partition(), message.offset(), message.error()
    if fault is not None and fault.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(fault)
    if partition not in unread or partition is None or offset is None:
        return
    committed = unread[partition].committed
    if fault is None and offset < committed:
        found[partition].append(offset)
    if fault is not None or offset >= committed - 1:
        del unread[partition]


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "tableflow-verify",  # required by the client; nothing is ever committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 262_144,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
