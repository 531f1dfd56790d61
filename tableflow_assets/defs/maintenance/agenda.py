"""Which tables are to be looked at, and which of them the next run looks after.

It is the sensor's cursor, and only a hint: if it is lost, every table comes with its next slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from json import dumps
from typing import Self

from pydantic import TypeAdapter, ValidationError

from tableflow_assets.operate.maintenance.slots import Slot

# A run costs seconds before it begins. So a table waits for others, for this share of its slot's spread.
COMPANY = 0.25
# For one run, which may not even come to the last of them.
MOST_TABLES = 100
# From launch to launch; doubled with every run that did not begin with any table (a server is away).
PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 60.0, 900.0
# A table that has waited for so long since its slot counts twice, after twice the time three times, …
PATIENCE_SECONDS = 3600.0


@dataclass(frozen=True)
class Entry:
    """A table in need. ``since``: its slot; ``launch_by``: how long it waits for others."""

    since: float
    launch_by: float
    urgency: int

    def weight(self, now: float) -> float:
        return self.urgency * (1 + max(now - self.since, 0) / PATIENCE_SECONDS)


@dataclass
class Agenda:
    """``at``: slots up to then are known. ``due``: in the order in which they are looked at."""

    at: float = 0
    due: dict[str, Slot] = field(default_factory=dict)
    needy: dict[str, Entry] = field(default_factory=dict)
    sent: dict[str, Entry] = field(default_factory=dict)  # to the last run, until it is over
    sent_at: float = 0
    fruitless: int = 0  # runs in a row

    @classmethod
    def from_cursor(cls, text: str | None) -> Self:
        try:
            return TypeAdapter(cls).validate_json(text or "{}")
        except ValidationError:
            return cls()  # written by another version

    def to_cursor(self) -> str:
        return dumps(asdict(self))

    def keep_only(self, names: Collection[str]) -> None:
        """The tables that are still there, and still to be looked after."""
        for part in (self.due, self.needy, self.sent):
            for name in set(part) - set(names):
                del part[name]

    def note_due(self, slots: Mapping[str, Slot], now: float) -> None:
        """Without a cursor it begins now: a slot that is over is no reason to work at any other time."""
        since = min(self.at or now, now)
        new = {name: slot for name, slot in slots.items() if since < slot.at <= now}
        for name in sorted(new, key=lambda name: new[name].at):
            self.due.setdefault(name, new[name])
        self.at = now

    def postpone(self, name: str) -> None:
        """Look at the others first."""
        self.due[name] = self.due.pop(name)

    def looked(self, name: str, urgency: int) -> None:
        slot, last = self.due.pop(name), self.needy.pop(name, None)
        if urgency:
            since = min(slot.at, last.since) if last else slot.at
            launch_by = since + COMPANY * slot.spread
            self.needy[name] = Entry(since, launch_by, urgency)

    def settle(self, left: Iterable[str] | None) -> None:
        """The last run is over. ``left``: what it did not come to; None: it did not say."""
        rest = set(self.sent) if left is None else set(left) & set(self.sent)
        if self.sent:
            self.fruitless = self.fruitless + 1 if rest == set(self.sent) else 0
        for name, entry in self.sent.items():
            if name in rest:
                self.needy[name] = replace(entry, launch_by=0)
        self.sent = {}

    def ready(self, now: float) -> list[str]:
        """The tables for a run now, those in most need first; none: it is not yet time for one."""
        pause = min(PAUSE_SECONDS * 2.0**self.fruitless, LONGEST_PAUSE_SECONDS)
        is_full = len(self.needy) >= MOST_TABLES
        is_time = any(entry.launch_by <= now for entry in self.needy.values())
        if now < self.sent_at + pause or not (is_time or is_full):
            return []
        by_need = sorted(self.needy, key=lambda name: -self.needy[name].weight(now))
        return by_need[:MOST_TABLES]

    def send(self, names: Iterable[str], now: float) -> None:
        self.sent = {name: self.needy.pop(name) for name in names}
        self.sent_at = now
