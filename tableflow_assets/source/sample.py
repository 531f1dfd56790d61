"""How large a topic's records are, estimated from a sample."""

from __future__ import annotations

import time

from confluent_kafka import Consumer, TopicPartition

from tableflow_assets.source.kafka_refusals import is_about_a_partition
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import OffsetRange, Plan

PLACES = 4  # sampled in every partition: small records may come before large ones
SAMPLE = 100  # offsets at each place
FETCH_BYTES = 65_536  # of a partition at once; a larger record is fetched nevertheless
PATIENCE_SECONDS = 2.0  # a place may hold nothing but aborted records


def average_record_bytes(log: Log, plan: Plan) -> int:
    """Of a sample of the records that the plan will read; at least 1."""
    sizes = [size for place in range(PLACES) for size in _sizes_at(log, plan, place)]
    return max(1, sum(sizes) // max(1, len(sizes)))


def _sizes_at(log: Log, plan: Plan, place: int) -> list[int]:
    """The sizes of the first records of one part of every partition, each cut into ``PLACES`` parts."""

    def part(r: OffsetRange) -> range:
        begin, end = (r.start + r.size * number // PLACES for number in (place, place + 1))
        return range(begin, min(end, begin + SAMPLE))

    unread = {r.partition: part(r) for r in plan.ranges if part(r)}
    consumer = _consumer(log)  # one per place: paused partitions stall a consumer for a second
    consumer.assign([TopicPartition(plan.topic.name, p, o[0]) for p, o in unread.items()])
    sizes: list[int] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    try:
        while unread and time.monotonic() < deadline:
            for message in filter(is_about_a_partition, consumer.consume(SAMPLE, timeout=0.02)):
                partition, offset = message.partition() or 0, message.offset() or 0
                sampled = unread.get(partition, range(0))
                if message.error() is None and offset in sampled:
                    sizes.append(len(message.key() or b"") + len(message.value() or b""))
                if message.error() is not None or offset + 1 >= sampled.stop:
                    unread.pop(partition, None)
                    # Otherwise its further records would queue before those of other partitions.
                    consumer.pause([TopicPartition(plan.topic.name, partition)])
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
            # By default the client reads ahead tens of megabytes per partition, of no use here.
            "queued.min.messages": SAMPLE,
            "queued.max.messages.kbytes": 1024,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
