"""Since when the oldest unread records are in the log: by their own timestamps."""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition

from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.kafka_refusals import is_about_a_partition

FETCH_BYTES = 16_384  # of a partition at once; a larger record is fetched nevertheless
AT_ONCE = 500  # records taken from the client


def oldest_timestamps(
    access: KafkaAccess, places: Mapping[str, Mapping[int, int]], patience_seconds: float
) -> dict[str, int]:
    """Per topic, the milliseconds of the earliest record among those at these offsets.

    An offset without a record counts as that of the next one. A topic is left out if Kafka has not given
    the record of each partition in time, or gives no timestamps.
    """
    unread = {
        (topic, p): offset for topic, offsets in places.items() for p, offset in offsets.items()
    }
    stamps: dict[str, list[int]] = {}
    if not unread:
        return {}
    consumer = _consumer(access)  # one for all: each costs threads and connections
    deadline = time.monotonic() + patience_seconds
    try:
        consumer.assign([TopicPartition(*place, offset) for place, offset in unread.items()])
        while unread and time.monotonic() < deadline:
            for message in filter(is_about_a_partition, consumer.consume(AT_ONCE, timeout=0.02)):
                place = (message.topic() or "", message.partition() or 0)
                if _is_trouble(message) or unread.pop(place, None) is None:
                    continue
                if (stamp := _timestamp(message)) is not None:
                    stamps.setdefault(place[0], []).append(stamp)
                consumer.incremental_unassign([TopicPartition(*place)])
    finally:
        consumer.close()
    unanswered = {topic for topic, _ in unread}
    return {topic: min(found) for topic, found in stamps.items() if topic not in unanswered}


def _is_trouble(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() != KafkaError._PARTITION_EOF


def _timestamp(message: Message) -> int | None:
    """None at the end of a partition, which holds nothing but aborted records from here on."""
    if message.error() is not None:
        return None
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE else milliseconds


def _consumer(access: KafkaAccess) -> Consumer:
    return Consumer(
        {
            **access.client_config(),
            "group.id": "tableflow-oldest",  # required by the client; nothing is ever committed
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",  # where records have expired unread
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # By default the client reads ahead tens of megabytes per partition, of no use here.
            "queued.min.messages": 1,
            "queued.max.messages.kbytes": 64,
            "fetch.message.max.bytes": FETCH_BYTES,
            "fetch.queue.backoff.ms": 10,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
