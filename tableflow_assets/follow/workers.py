"""A bounded number of turns at a time, each in a thread of its own, all in one Spark session."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.tableflow import Tableflow

# Yields whether the table may be worked on now: a run that somebody has launched by hand goes first.
Permit = Callable[[ManagedTable], AbstractContextManager[bool]]


def always(_: ManagedTable) -> AbstractContextManager[bool]:
    return nullcontext(True)


class Subject(Protocol):
    """What a turn is about: a topic, or a product."""

    @property
    def name(self) -> str: ...


class Outcome(Protocol):
    """``is_work_done``: it changed the table, and left nothing to do; only then does its worker rest."""

    @property
    def name(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def is_work_done(self) -> bool: ...


SubjectT = TypeVar("SubjectT", bound=Subject)
OutcomeT = TypeVar("OutcomeT", bound=Outcome)


@dataclass(frozen=True)
class Limits:
    """``rest``: for this share of its turn's time, but no longer than ``longest_rest``, a worker rests
    afterwards."""

    workers: int
    rest: float
    longest_rest: float
    hung_seconds: float  # a turn that takes this long is not waited for any more


class Workers(Generic[SubjectT, OutcomeT]):
    """Only the loop's thread calls it. The threads are daemons: one that hangs keeps no process alive."""

    def __init__(
        self,
        make_tableflow: Callable[[], Tableflow],
        take_turn: Callable[[Tableflow, SubjectT], OutcomeT],
        limits: Limits,
    ) -> None:
        """``take_turn`` raises nothing."""
        self._make, self._take_turn, self._limits = make_tableflow, take_turn, limits
        self._running: dict[str, float] = {}  # since when
        self._resting: list[float] = []  # until when; a resting worker is not free
        self._done: queue.Queue[tuple[Tableflow, OutcomeT]] = queue.Queue()
        self._idle: list[Tableflow] = []  # with connections of their own: clients serve one thread

    @property
    def busy(self) -> set[str]:
        return set(self._running)

    def hung(self) -> set[str]:
        limit = time.monotonic() - self._limits.hung_seconds
        return {name for name, since in self._running.items() if since < limit}

    def has_room(self) -> bool:
        now = time.monotonic()
        self._resting = [until for until in self._resting if until > now]
        taken = len(self._running) - len(self.hung()) + len(self._resting)
        return taken < self._limits.workers

    def start(self, subject: SubjectT) -> None:
        tableflow = self._idle.pop() if self._idle else self._make()
        self._running[subject.name] = time.monotonic()
        threading.Thread(
            target=self._turn, args=(tableflow, subject), name=f"follow-{subject.name}", daemon=True
        ).start()

    def collect(self, timeout: float) -> list[OutcomeT]:
        """The turns that have ended; waits for one, but no longer than this."""
        outcomes: list[OutcomeT] = []
        while True:
            try:
                tableflow, outcome = self._done.get(timeout=0 if outcomes else timeout)
            except queue.Empty:
                return outcomes
            self._running.pop(outcome.name, None)
            self._idle.append(tableflow)
            if outcome.is_work_done:
                rest = min(outcome.seconds * self._limits.rest, self._limits.longest_rest)
                self._resting.append(time.monotonic() + rest)
            outcomes.append(outcome)

    def _turn(self, tableflow: Tableflow, subject: SubjectT) -> None:
        self._done.put((tableflow, self._take_turn(tableflow, subject)))
