"""Whether a topic's promise holds: how old is the oldest record that its table does not have yet?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyiceberg.table import Table

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log, Offsets
from tableflow_assets.table.ledger import read_ledger


@dataclass(frozen=True)
class Unread:
    """Of one topic. ``starts``: per Kafka partition with unread records, the first of them."""

    starts: Offsets
    records: int

    @classmethod
    def of(cls, committed: Mapping[int, int], end: Offsets) -> Unread:
        starts = {
            p: committed.get(p, 0) for p, offset in end.items() if committed.get(p, 0) < offset
        }
        return cls(starts, sum(end[partition] - start for partition, start in starts.items()))

    @classmethod
    def by(cls, table: Table | None, end: Offsets) -> Unread:
        has_rows = table is not None and table.current_snapshot() is not None
        return cls.of(read_ledger(table).committed if table is not None and has_rows else {}, end)


@dataclass(frozen=True)
class Promise:
    """``age_seconds``: of the oldest unread record, 0 if there is none, None if Kafka did not say."""

    topic: Topic
    unread: int
    age_seconds: float | None

    @property
    def is_kept(self) -> bool:
        return self.age_seconds is not None and not is_late(self.topic, self.age_seconds)


def is_late(topic: Topic, age_seconds: float) -> bool:
    return topic.freshness is not None and age_seconds > topic.freshness.total_seconds()


def promises(log: Log, unread: Mapping[Topic, Unread]) -> list[Promise]:
    """One question to Kafka for all; none at all if everything is read."""
    ages = log.ages({topic.name: some.starts for topic, some in unread.items() if some.starts})
    return [
        Promise(topic, some.records, ages.get(topic.name) if some.starts else 0.0)
        for topic, some in unread.items()
    ]
