"""When a table is looked after: at a moment of its own after each time that its cron schedule names.

Most tables have the same schedule. Each has a place of its own in the time that follows, told from its name:
so they come one after the other, and always in the same order, without anybody keeping a list.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from croniter import croniter

from tableflow_assets.settings.managed_table import ManagedTable

# What follows a time of the schedule is shared out up to the next time, but no longer than this.
LONGEST_SPREAD_SECONDS = 3600.0


@dataclass(frozen=True)
class Slot:
    """``spread``: the seconds, from the time that the schedule names, among which it has its place."""

    at: float
    spread: float


def last_slots(tables: Iterable[ManagedTable], now: float) -> dict[str, Slot]:
    """By the table's name: its newest slot that has come. Tables without a schedule have none."""
    times: dict[str, tuple[Slot, Slot]] = {}
    slots: dict[str, Slot] = {}
    for table in tables:
        if table.maintenance is None:
            continue
        if table.maintenance not in times:
            times[table.maintenance] = _last_times(table.maintenance, now)
        slots[table.name] = _own(table.name, times[table.maintenance], now)
    return slots


def _own(name: str, times: tuple[Slot, Slot], now: float) -> Slot:
    place = _place(name)
    newest, before = (Slot(time.at + place * time.spread, time.spread) for time in times)
    return newest if newest.at <= now else before


def _place(name: str) -> float:
    """From 0 to, but not including, 1."""
    digest = hashlib.sha256(name.encode()).digest()
    return int.from_bytes(digest[:6]) / 2**48


def _last_times(cron: str, now: float) -> tuple[Slot, Slot]:
    """The last time that the schedule names, and the one before; with the time to share out after each."""
    after_now = datetime.fromtimestamp(int(now) + 1, UTC)
    times = croniter(cron, after_now)
    newest, before = times.get_prev(datetime), times.get_prev(datetime)
    following = croniter(cron, newest).get_next(datetime)
    return (
        Slot(newest.timestamp(), _spread(newest, following)),
        Slot(before.timestamp(), _spread(before, newest)),
    )


def _spread(begin: datetime, end: datetime) -> float:
    return min((end - begin).total_seconds(), LONGEST_SPREAD_SECONDS)
