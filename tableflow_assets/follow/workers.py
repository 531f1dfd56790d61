"""A bounded number of turns at a time, each in a thread of its own, all in one Spark session."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tableflow_assets.base.errors import Unforeseen
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.turn import Turn, take_turn
from tableflow_assets.settings.settings import Topic
from tableflow_assets.tableflow import Tableflow

# Yields whether the table may be worked on now: a run that somebody has launched by hand goes first.
Permit = Callable[[Topic], AbstractContextManager[bool]]


def always(_: Topic) -> AbstractContextManager[bool]:
    return nullcontext(True)


@dataclass(frozen=True)
class _Running:
    topic: Topic
    since: float


class Workers:
    """Only the loop's thread calls it. The threads are daemons: one that hangs keeps no process alive."""

    def __init__(
        self,
        make_tableflow: Callable[[], Tableflow],
        pace: Pace,
        run_id: str,
        permit: Permit = always,
    ) -> None:
        self._make, self._pace, self._run_id, self._permit = make_tableflow, pace, run_id, permit
        self._running: dict[str, _Running] = {}
        self._resting: list[float] = []  # until when; a resting worker is not free
        self._done: queue.Queue[tuple[Tableflow, Turn]] = queue.Queue()
        self._idle: list[Tableflow] = []  # with connections of their own: clients serve one thread

    @property
    def busy(self) -> set[str]:
        return set(self._running)

    def hung(self) -> list[str]:
        limit = time.monotonic() - self._pace.hung_seconds
        return [name for name, running in self._running.items() if running.since < limit]

    def has_room(self) -> bool:
        now = time.monotonic()
        self._resting = [until for until in self._resting if until > now]
        taken = len(self._running) - len(self.hung()) + len(self._resting)
        return taken < self._pace.workers

    def start(self, topic: Topic) -> None:
        tableflow = self._idle.pop() if self._idle else self._make()
        self._running[topic.name] = _Running(topic, time.monotonic())
        name = f"follow-{topic.table}"
        threading.Thread(target=self._turn, args=(tableflow, topic), name=name, daemon=True).start()

    def collect(self, timeout: float) -> list[Turn]:
        """The turns that have ended; waits for one, but no longer than this."""
        turns: list[Turn] = []
        while True:
            try:
                tableflow, turn = self._done.get(timeout=0 if turns else timeout)
            except queue.Empty:
                return turns
            self._running.pop(turn.topic.name, None)
            self._idle.append(tableflow)
            if turn.is_complete and turn.committed.snapshots:
                self._resting.append(time.monotonic() + turn.seconds * self._pace.rest)
            turns.append(turn)

    def _turn(self, tableflow: Tableflow, topic: Topic) -> None:
        try:
            with self._permit(topic) as is_free:
                if is_free:
                    pipeline = tableflow.pipeline(topic)
                    turn = take_turn(pipeline, self._run_id, self._pace.turn_seconds)
                else:
                    turn = Turn(topic, is_taken=True)
        except Exception as error:  # a thread that ends silently would keep its topic busy for ever
            turn = Turn(topic, error=Unforeseen(topic.name, error, None))
        self._done.put((tableflow, turn))
