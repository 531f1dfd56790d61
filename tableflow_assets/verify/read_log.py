"""The log as a plain consumer reads it: only committed records, so offsets may have gaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.kafka_refusals import Complaints, is_about_a_partition, topic_refused
from tableflow_assets.source.log import Log
from tableflow_assets.verify.result import NONE, Int64s, Span

BATCH = 10_000
POLL_SECONDS = 0.05
SILENCE_SECONDS = 30  # without a record or the end of a partition: the broker is gone
Progress = Callable[[int], None]  # records read from the log since the last call


class Listener(Protocol):
    """Takes what it needs from the records as they are read."""

    def hear(self, partition: int, records: Sequence[Any]) -> None: ...


class Offsets:
    """Which offsets hold a record."""

    def __init__(self) -> None:
        self._offsets: dict[int, list[Int64s]] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        offsets = np.fromiter((record.offset() for record in records), np.int64, len(records))
        self._offsets.setdefault(partition, []).append(offsets)

    def of(self, partition: int) -> Int64s:
        return np.concatenate([NONE, *self._offsets.get(partition, ())])


def read_log(
    log: Log,
    spans: Sequence[Span],
    listeners: Sequence[Listener],
    on_progress: Progress,
    kilobytes_ahead: int = 262_144,
) -> None:
    """All committed records in [start, committed) of every partition, in order.

    ``kilobytes_ahead``: what is fetched before it is asked for, and beyond the end in vain.
    """
    unread = {span.partition: span for span in spans if span.start < span.committed}
    complaints = Complaints(log.access)
    consumer = _consumer(log.access, complaints, kilobytes_ahead)
    consumer.assign([TopicPartition(p.topic, p.partition, p.start) for p in unread.values()])
    last_read = time.monotonic()
    try:
        while unread:
            messages = consumer.consume(BATCH, timeout=POLL_SECONDS)
            for partition, records in _by_partition(log, messages, unread).items():
                for listener in listeners:
                    listener.hear(partition, records)
            on_progress(len(messages))
            if messages:
                last_read = time.monotonic()
                complaints.forget()
            elif time.monotonic() - last_read > SILENCE_SECONDS:
                raise complaints.error(f"silent for {SILENCE_SECONDS} s")
    finally:
        consumer.close()


def _by_partition(
    log: Log, messages: list[Message], unread: dict[int, Span]
) -> dict[int, list[Message]]:
    """The records in range; a partition is done when its end, or a later record, is reached."""
    records: dict[int, list[Message]] = {}
    for message in filter(is_about_a_partition, messages):
        partition, offset, fault = message.partition(), message.offset(), message.error()
        if fault is not None and fault.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise topic_refused(log.access, message.topic() or "")
        if fault is not None and fault.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(fault)
        span = unread.get(partition)  # type: ignore[arg-type]
        if span is None or offset is None:
            continue
        if fault is None and span.start <= offset < span.committed:
            records.setdefault(span.partition, []).append(message)
        if fault is not None or offset >= span.committed - 1:
            del unread[span.partition]
    return records


def _consumer(access: KafkaAccess, complaints: Complaints, kilobytes_ahead: int) -> Consumer:
    return Consumer(
        {
            **access.client_config(),
            "error_cb": complaints,
            "group.id": "tableflow-verify",  # required by the client; nothing is ever committed
            "enable.auto.commit": False,
            # Records that expire meanwhile are skipped; the default would skip to the end of the log.
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": kilobytes_ahead,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
