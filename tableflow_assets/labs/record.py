"""What the labs generate: records, and drafts that wait for the moment they are produced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class LabRecord:
    """One Kafka record before it is serialized."""

    topic: str
    key: str
    value: dict[str, object]
    timestamp_ms: int
    """When the record is produced: its Kafka timestamp."""


Draft = Callable[[datetime], LabRecord]
"""A record whose content is decided, all but its time: give it the moment of production."""


def record_at(now: datetime, topic: str, key: object, value: dict[str, object]) -> LabRecord:
    return LabRecord(topic, str(key), value, epoch_millis(now))


def epoch_millis(moment: datetime) -> int:
    # Whole-number division: a float of seconds would lose the last milliseconds digit now and then.
    return (moment - EPOCH) // timedelta(milliseconds=1)
