"""Stories: records that belong together, in the order in which they arrive."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

MILLISECOND = timedelta(milliseconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
THURSDAYS = tuple(datetime(2026, 2, day, tzinfo=UTC) for day in (5, 12, 19))


@dataclass(frozen=True)
class Draft:
    """A record without its Kafka timestamp. ``behind``: how much its sender's clock is slow."""

    topic: str
    key: str
    value: dict[str, Any]
    behind: timedelta = timedelta(0)


Beat = tuple[Draft, ...]
"""Records that arrive one after the other, with the same Kafka timestamp (if their clocks are right)."""

Story = list[Beat]


def by_a_slow_clock(draft: Draft) -> Draft:
    """Older, by its Kafka timestamp, than all records of clocks that are right."""
    return replace(draft, behind=2 * HOUR)


def in_turn(*drafts: Draft) -> Story:
    return [(draft,) for draft in drafts]


@dataclass(frozen=True)
class Draw:
    """Random values, and numbers that no other story has."""

    random: random.Random
    numbers: count[int] = field(default_factory=lambda: count(1))

    def number(self) -> int:
        return next(self.numbers)

    def moment(self) -> datetime:
        """In February 2026, with days to spare before the records' Kafka timestamps."""
        first = datetime(2026, 2, 6, tzinfo=UTC)
        return first + self.random.randrange(14 * DAY // MILLISECOND) * MILLISECOND

    def within(self, span: timedelta) -> timedelta:
        """More than nothing, and less than the span."""
        return self.random.randrange(1, span // MILLISECOND) * MILLISECOND

    def price(self) -> float:
        # Some have a seventh decimal, which sums round.
        return round(self.random.uniform(1, 500), self.random.choice((2, 2, 2, 7)))

    def mixed(self, *stories: Story) -> Story:
        """The stories' beats in any order that leaves each story its own."""
        waiting = [list(story) for story in stories if story]
        mixed: Story = []
        while waiting:
            (chosen,) = self.random.choices(waiting, [len(story) for story in waiting])
            mixed.append(chosen.pop(0))
            waiting = [story for story in waiting if story]
        return mixed
