"""The loop: look at all ends, give turns to the topics that wait longest, until there is nothing to do.

The tables' ledgers decide what is read, so any number of such loops do no harm: who comes second at a table
finds it done. Killed at any moment, it leaves every table with a commit whole or not at all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from tableflow_assets.base.errors import ServerUnreachable, Suspended, TableflowError
from tableflow_assets.base.faults import OF_ALL
from tableflow_assets.follow.backlog import Backlog
from tableflow_assets.follow.due import gathering_seconds
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.packing import OnPacked, Packing
from tableflow_assets.follow.products import FollowedProducts, OnProductTurn
from tableflow_assets.follow.turn import Call, Turn, take_turn
from tableflow_assets.follow.workers import Limits, Permit, Workers, always
from tableflow_assets.settings.settings import Topic
from tableflow_assets.tableflow import Tableflow

OnTurn = Callable[[Turn], None]
SPARK = "Spark Connect"
WITHOUT_ANSWER_SECONDS = 2.0
GUESS_SECONDS = 5.0
TAKEN_SECONDS = 1.0  # before a table that another run works on is tried again
SUSPENDED_SECONDS = 10.0  # before looking again whether somebody has resumed a topic
FAILURES_BEFORE_GIVING_UP = 3
FINISH_SECONDS = 60.0  # for topics' turns under way, once it is over


def follow(
    make_tableflow: Callable[[], Tableflow],
    *,
    topics: Iterable[str] = (),
    first: Collection[str] = (),
    run_id: str = "",
    pace: Pace | None = None,
    permit: Permit = always,
    on_turn: OnTurn = lambda _: None,
    on_product_turn: OnProductTurn = lambda _: None,
    on_packed: OnPacked = lambda _: None,
    is_over: Callable[[], bool] = lambda: False,
) -> str:
    """Bring the tables up to the log again and again; return why it ended.

    ``topics``: all that the settings and the cluster know, and the products, if none is named. ``first``:
    those whose turn comes before that of topics of which nothing is known yet. ``is_over``: asked at every
    look. Raises what the last turn failed with, if no topic's turn has succeeded for a while.
    """
    pace = pace or Pace()
    names, tableflow = tuple(topics), make_tableflow()
    products = FollowedProducts(
        () if names else tableflow.products, make_tableflow, pace, run_id, permit, on_product_turn
    )
    workers = Workers[Call, Turn](
        make_tableflow,
        lambda tableflow, call: take_turn(tableflow, call, permit, run_id, pace.turn_seconds),
        Limits(pace.workers, pace.rest, pace.longest_rest, pace.hung_seconds),
    )
    packing = Packing(make_tableflow, pace, permit, on_packed)
    loop = _Loop(tableflow, names, set(first), pace, workers, products, packing, on_turn)
    return loop.run(is_over)


@dataclass
class _Followed:
    """What the loop knows of one topic."""

    topic: Topic
    backlog: Backlog = field(default_factory=Backlog)
    failures: int = 0  # since its last success
    last_turn: float = 0.0
    not_before: float = 0.0
    record_bytes: float = 0.0

    @property
    def due_at(self) -> float:
        """When enough will have gathered; infinite if all is read."""
        since = self.backlog.waiting_since
        if since is None:
            return math.inf
        # Of a table that was not asked yet, only a turn can say since when records wait.
        if not self.topic.commit_every or not self.backlog.is_known:
            return since
        return since + gathering_seconds(self.topic, self.backlog.unread, self.record_bytes)

    def is_waiting(self, now: float) -> bool:
        return now >= max(self.due_at, self.not_before)


class _Loop:
    def __init__(
        self,
        tableflow: Tableflow,
        names: tuple[str, ...],
        first: set[str],
        pace: Pace,
        workers: Workers[Call, Turn],
        products: FollowedProducts,
        packing: Packing,
        on_turn: OnTurn,
    ) -> None:
        self._tableflow, self._names, self._first = tableflow, names, first
        self._pace, self._workers, self._on_turn = pace, workers, on_turn
        self._products, self._packing = products, packing
        self._followed: dict[str, _Followed] = {}
        self._next_discovery = self._next_look = 0.0
        self._last_work = self._last_success = self._last_look = time.monotonic()
        self._failures = 0  # of all topics, since the last success of any

    def run(self, is_over: Callable[[], bool]) -> str:
        while True:
            self._settle(self._workers.collect(timeout=self._pace.look_seconds / 5))
            self._settle_products()
            self._packing.settle()
            now = time.monotonic()
            if is_over():
                self._finish()
                return "it was asked to end"
            if now >= self._next_look:
                self._try_to_look(now)
                now = time.monotonic()  # what was first seen just now may be due
            is_waiting = self._give_all_turns(now)
            is_busy = (
                is_waiting or self._workers.busy or self._products.is_busy or self._packing.busy
            )
            is_idle = not is_busy and now >= self._last_work + self._pace.idle_seconds
            if is_idle and not self._is_any_due_soon(now):
                return f"nothing came for {self._pace.idle_seconds:.0f} s"

    def _try_to_look(self, now: float) -> None:
        try:
            self._look(now)
            self._last_look = now
        except OF_ALL:  # a broker that restarts is back in seconds
            if now >= self._last_look + self._pace.patience_seconds:
                raise
            self._next_look = now + WITHOUT_ANSWER_SECONDS

    def _look(self, now: float) -> None:
        if now >= self._next_discovery:
            for topic in self._tableflow.topics(self._names):
                self._followed.setdefault(topic.name, _Followed(topic)).topic = topic
            self._next_discovery = now + self._pace.discover_seconds
        begin = time.monotonic()
        for name, end in self._tableflow.log.ends(self._followed).items():
            self._followed[name].backlog.see(end, begin)
        took = time.monotonic() - begin
        # Thousands of partitions take a while to ask for: then less often, so that it costs no more.
        self._next_look = begin + max(self._pace.look_seconds, 10 * took)

    def _give_all_turns(self, now: float) -> bool:
        """Return whether a topic or a product waits for one. A table gets one turn at a time, of any kind."""
        packed = self._packing.busy
        is_waiting = any([self._give_turns(now, packed), self._products.give_turns(now, packed)])
        self._packing.give_turns(now, self._workers.busy | self._products.busy)
        return is_waiting

    def _give_turns(self, now: float, packed: set[str]) -> bool:
        """Return whether any topic waits for one."""
        waiting = [followed for followed in self._followed.values() if followed.is_waiting(now)]
        for followed in sorted(waiting, key=self._urgency):
            if not self._workers.has_room():
                break
            if followed.topic.name not in self._workers.busy | packed:
                is_due = followed.backlog.is_known or followed.topic.name in self._first
                self._workers.start(Call(followed.topic, is_due or not followed.topic.commit_every))
        return bool(waiting)

    def _is_any_due_soon(self, now: float) -> bool:
        """To wait for it costs less than to end and to begin anew."""
        soon = now + self._pace.idle_seconds
        return any(now < followed.due_at <= soon for followed in self._followed.values())

    def _urgency(self, followed: _Followed) -> float:
        """The one that has been due for longest comes first.

        One that has more to read than fits in a turn waits since its last turn, or it would take all. And
        one that may well be up to date lets others pass, but not for ever.
        """
        is_guess = not followed.backlog.is_known and followed.topic.name not in self._first
        return max(followed.due_at + (GUESS_SECONDS if is_guess else 0.0), followed.last_turn)

    def _settle(self, turns: Iterable[Turn]) -> None:
        for turn in turns:
            followed, now = self._followed[turn.topic.name], time.monotonic()
            followed.last_turn = now
            if turn.offsets is not None:
                followed.backlog.settle(turn.offsets)
            if turn.gathers_for is not None:
                followed.backlog.has_waited_since(now - turn.gathers_for)
            followed.record_bytes = turn.record_bytes or followed.record_bytes
            if turn.has_committed or turn.leaves_work:
                self._last_work = now
            if turn.has_committed:
                self._products.note_change(turn.topic.table, now)
                self._packing.note_commits(turn.topic, len(turn.committed.snapshots))
            if turn.is_taken:
                followed.not_before = now + TAKEN_SECONDS
            elif isinstance(turn.error, Suspended):
                followed.not_before = now + SUSPENDED_SECONDS
            elif turn.error is not None:
                followed.failures += 1
                followed.not_before = now + self._pace.wait_after(followed.failures)
            else:
                followed.failures = 0
            self._on_turn(turn)
            self._judge(turn, now)

    def _settle_products(self) -> None:
        for turn in self._products.settle():
            if turn.has_committed:
                self._last_work = time.monotonic()
                self._packing.note_commits(turn.product.spec)
            _end_without_spark(turn.error)

    def _judge(self, turn: Turn, now: float) -> None:
        """One topic's failure is its own; but if nothing succeeds, it is a server's, or ours."""
        if turn.error is None or isinstance(turn.error, Suspended):
            self._failures, self._last_success = 0, now
            return
        _end_without_spark(turn.error)
        self._failures += 1
        is_patient = now < self._last_success + self._pace.patience_seconds
        if self._failures >= FAILURES_BEFORE_GIVING_UP and not is_patient:
            raise _all_failed(turn.error, self._failures)

    def _finish(self) -> None:
        """Let turns that are under way come to their end: what a product has computed would be lost."""
        deadline = time.monotonic() + FINISH_SECONDS
        while self._is_any_topic_busy() and time.monotonic() < deadline:
            self._settle(self._workers.collect(timeout=0.5))
            self._packing.settle()
        while self._products.is_busy:
            time.sleep(0.1)
            self._settle_products()

    def _is_any_topic_busy(self) -> bool:
        return bool(self._workers.busy - self._workers.hung() or self._packing.busy)


def _end_without_spark(error: TableflowError | None) -> None:
    """A restarted server has forgotten the session; the next process gets one."""
    if isinstance(error, ServerUnreachable) and error.server == SPARK:
        raise error


def _all_failed(error: TableflowError, times: int) -> TableflowError:
    return TableflowError(
        f"The last {times} attempts failed, whatever the topic. The last one: {error.problem}",
        "A new run tries again. What is missing stays in Kafka, and is read once the cause is gone.",
    )
