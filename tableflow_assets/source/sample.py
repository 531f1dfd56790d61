"""How large a topic's records are, from a look at some."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from tableflow_assets.source.kafka_refusals import is_of_a_partition
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import OffsetRange, Plan

PLACES = 4  # looked at in every partition: small records may come before large ones
SAMPLE = 100  # offsets at each
FETCH_BYTES = 65_536  # of a partition at once; a larger record comes nevertheless
PATIENCE_SECONDS = 2.0  # a place may have no record to look at: none but aborted ones


def average_record_bytes(log: Log, planned: Plan) -> int:
    """Of some of the records that the plan will read; at least 1."""
    sizes = [size for place in range(PLACES) for size in _sizes_at(log, planned, place)]
    return max(1, sum(sizes) // max(1, len(sizes)))


def _sizes_at(log: Log, planned: Plan, place: int) -> list[int]:
    """Of the first records in one of as many parts of every partition as there are places."""

    def part(r: OffsetRange) -> range:
        begin, end = (r.start + r.size * number // PLACES for number in (place, place + 1))
        return range(begin, min(end, begin + SAMPLE))

    unread = {r.partition: part(r) for r in planned.ranges if part(r)}
    consumer = _consumer(log)  # one that has paused partitions stalls now and then for a second
    consumer.assign([TopicPartition(planned.topic.name, p, o[0]) for p, o in unread.items()])
    sizes: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while unread and time.monotonic() < deadline:
            for message in filter(is_of_a_partition, consumer.consume(SAMPLE, timeout=0.02)):
                partition, offset = message.partition() or 0, message.offset() or 0
                wanted = unread.get(partition, range(0))
                if message.error() is None and offset in wanted:
                    sizes.append(len(message.key() or b"") + len(message.value() or b""))
                if message.error() is not None or offset + 1 >= wanted.stop:
                    unread.pop(partition, None)
                    # What else came of it would stand in line before the other partitions' records.
                    consumer.pause([TopicPartition(planned.topic.name, partition)])
    finally:
        consumer.close()
    return sizes


def _consumer(log: Log) -> Consumer:
    return Consumer(
        {
            **log.access.client_config(),
            "group.id": "tableflow-sample",  # required by the client; nothing is ever committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # The client reads ahead, by default tens of megabytes a partition: here for nothing.
            "queued.min.messages": SAMPLE,
            "queued.max.messages.kbytes": 1024,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
