"""What the sensor `new_offsets` remembers of a topic from one look to the next, in its cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from json import dumps

from pydantic import TypeAdapter, ValidationError

from tableflow_assets.follow.due import gathering_seconds
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.suspension import Suspension

# A request that changed nothing (its run failed) is repeated after 5, 10, 20 … 300 s.
FIRST_WAIT_SECONDS = 5
LONGEST_WAIT_SECONDS = 300


@dataclass(frozen=True)
class Watched:
    """Whether the topic's promise was broken when last looked at; see ``promise_watch``."""

    at: float = 0
    is_late: bool = False
    told_at: float = 0


@dataclass(frozen=True)
class Sighting:
    """What the last tick saw of one topic. Only a hint: without it the next tick asks the table again."""

    end: dict[str, int] = field(default_factory=dict)
    committed: int = -1  # offsets in the table, all partitions together
    is_current: bool = False
    requested_at: float = 0
    fruitless: int = 0
    asked_at: float = 0  # when the table itself was last read
    suspended: Suspension | None = None
    observed_at: float = 0  # when the end offsets were last reported to Dagster
    is_observed: bool = False  # whether that report is still true
    unread_since: float = 0  # where records may gather: since when the oldest unread one waits
    record_bytes: float = 0
    watched: Watched = Watched()

    @property
    def is_behind(self) -> bool:
        return not self.is_current and self.suspended is None

    def gathers(self, topic: Topic, now: float) -> bool:
        """Whether what is unread is too little and too young for a run."""
        unread = sum(self.end.values()) - self.committed
        seconds = gathering_seconds(topic, unread, self.record_bytes)
        return bool(self.unread_since) and now < self.unread_since + seconds

    def may_request(self, now: float) -> bool:
        if not self.requested_at:
            return True
        wait = FIRST_WAIT_SECONDS * 2.0 ** (self.fruitless - 1)
        return now >= self.requested_at + min(wait, LONGEST_WAIT_SECONDS)


def to_cursor(sightings: Mapping[str, Sighting]) -> str:
    return dumps({name: asdict(sighting) for name, sighting in sightings.items()})


def from_cursor(text: str | None) -> dict[str, Sighting]:
    try:
        return TypeAdapter(dict[str, Sighting]).validate_json(text or "{}")
    except ValidationError:
        return {}  # written by another version: ask the tables again
