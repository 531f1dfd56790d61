"""What Dagster is told by a run that stays: each commit in its log, and sums of them as events.

An event costs Dagster more than many a commit. So a table's commits are reported together, at most once in a
while, by a thread of its own: the next commits need not wait.
"""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.defs.catalogs.assets import evaluation as published
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.tableflow import Tableflow

EVERY_SECONDS = 60.0  # per table
# Per table: the checks that say the same as before, and those that read rows again.
FULL_EVERY_SECONDS = 600.0


class AnyTurn(Protocol):
    """Of a topic or of a product. ``summary``: what it has committed, for people."""

    @property
    def name(self) -> str: ...
    @property
    def has_committed(self) -> bool: ...
    @property
    def summary(self) -> str: ...
    @property
    def is_taken(self) -> bool: ...
    @property
    def catalogs(self) -> Sequence[CatalogStatus]: ...
    @property
    def error(self) -> TableflowError | None: ...


TurnT = TypeVar("TurnT", bound=AnyTurn)


@dataclass
class _Unreported(Generic[TurnT]):
    turns: list[TurnT] = field(default_factory=list)  # that have committed
    due: float = 0.0
    full_due: float = 0.0
    problem: str = ""  # the one that was reported last


class Reporter(ABC, Generic[TurnT]):
    """Of one kind of table. Only the thread of ``Reports`` calls it."""

    def __init__(self, context: dg.OpExecutionContext, tableflow: Tableflow) -> None:
        self.context, self.tableflow = context, tableflow
        self._unreported: dict[str, _Unreported[TurnT]] = {}
        self._passed: dict[tuple[dg.AssetKey, str], bool] = {}

    @abstractmethod
    def report(self, turns: Sequence[TurnT], is_full: bool) -> None:
        """What the turns have committed to one table."""

    @abstractmethod
    def report_problem(self, turn: TurnT) -> None:
        """That the turn failed, or that one has succeeded since."""

    def add(self, turn: TurnT) -> None:
        unreported = self._unreported.setdefault(turn.name, _Unreported())
        if turn.has_committed:
            unreported.turns.append(turn)
        problem = turn.error.problem if turn.error else ""
        if problem == unreported.problem or turn.is_taken:
            return
        unreported.problem = problem
        if turn.error:
            self.context.log.error(f"{turn.name}: {turn.error}")
        try:
            with named_faults(turn.name, self.tableflow.settings.state_dir):
                self.report_problem(turn)
        except TableflowError as error:
            self.context.log.warning(f"{turn.name} could not be reported: {error}")

    def report_due(self, now: float) -> None:
        for name, unreported in self._unreported.items():
            if not unreported.turns or now < unreported.due:
                continue
            turns, unreported.turns = unreported.turns, []
            unreported.due = time.monotonic() + EVERY_SECONDS
            is_full = time.monotonic() >= unreported.full_due
            try:
                with named_faults(name, self.tableflow.settings.state_dir):
                    self.report(turns, is_full)
            except TableflowError as error:  # the rows are committed, whatever happens here
                self.context.log.warning(f"{name} could not be reported: {error}")
            if is_full:
                unreported.full_due = time.monotonic() + FULL_EVERY_SECONDS

    def report_catalogs(self, key: dg.AssetKey, turns: Sequence[TurnT], is_full: bool) -> None:
        newest = next((turn.catalogs for turn in reversed(turns) if turn.catalogs), ())
        for status in newest:
            self.log_check(published(key, status), is_full)

    def log_check(self, evaluation: dg.AssetCheckEvaluation, is_full: bool) -> None:
        """What has not changed is said now and then only."""
        check = (evaluation.asset_key, evaluation.check_name)
        if is_full or self._passed.get(check) != evaluation.passed:
            self.log_event(evaluation)
        self._passed[check] = evaluation.passed

    def log_event(self, event: Any) -> None:  # its type hints do not know evaluations
        self.context.log_event(event)


class Reports:
    """Notes turns at once, and has them reported in the background until it is left."""

    def __init__(self, context: dg.OpExecutionContext) -> None:
        self._context = context
        self._turns: queue.SimpleQueue[tuple[Reporter[Any], AnyTurn] | None] = queue.SimpleQueue()
        self._reporters: set[Reporter[Any]] = set()
        self._thread = threading.Thread(target=self._work, name="follow-reports", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._turns.put(None)
        self._thread.join()

    def note(self, turn: TurnT, reporter: Reporter[TurnT]) -> None:
        if turn.has_committed:
            self._context.log.info(f"{turn.name}: {turn.summary}")
        self._turns.put((reporter, turn))

    def _work(self) -> None:
        while True:
            try:
                noted = self._turns.get(timeout=1.0)
            except queue.Empty:
                self._report_due(time.monotonic())
                continue
            if noted is None:
                self._report_due(float("inf"))
                return
            reporter, turn = noted
            self._reporters.add(reporter)
            reporter.add(turn)
            if self._turns.empty():
                self._report_due(time.monotonic())

    def _report_due(self, now: float) -> None:
        for reporter in self._reporters:
            reporter.report_due(now)
