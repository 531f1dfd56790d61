"""What Dagster is told by a run that stays: each commit in its log, and sums of them as events.

An event costs Dagster more than many a commit. So a topic's commits are reported together, at most once in a
while, by a thread of its own: the next commits need not wait.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.defs.catalogs.assets import evaluation as published
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.topics.checks import exactly_once_evaluation, suspension_evaluation
from tableflow_assets.defs.topics.dead_letters import report_dead_letters
from tableflow_assets.defs.topics.delta_mirror import (
    NO_DELTA_VERSION,
    mirror_evaluation,
    version_in,
)
from tableflow_assets.defs.topics.windows import changed_windows
from tableflow_assets.follow.turn import Turn
from tableflow_assets.pipeline import NOTHING, Committed
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.suspension import find_suspension
from tableflow_assets.tableflow import Tableflow

EVERY_SECONDS = 60.0  # per topic
# Per topic: the checks that say the same as before, and `exactly_once`, which reads records again.
FULL_EVERY_SECONDS = 600.0


@dataclass
class _Unreported:
    topic: Topic
    committed: Committed = NOTHING
    catalogs: Sequence[CatalogStatus] = ()
    due: float = 0.0
    full_due: float = 0.0
    problem: str = ""  # the one that was reported last


class FollowReports:
    def __init__(self, context: dg.OpExecutionContext, tableflow: Tableflow) -> None:
        """``tableflow``: for this object alone; its thread asks the servers."""
        self._context, self._tableflow = context, tableflow
        self._settings = tableflow.settings
        self._turns: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._unreported: dict[str, _Unreported] = {}
        self._passed: dict[tuple[dg.AssetKey, str], bool] = {}
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

    def note(self, turn: Turn) -> None:
        if turn.committed.snapshots:
            self._context.log.info(f"{turn.topic.name}: {turn.committed} in {turn.seconds:.2f} s")
        self._turns.put(turn)

    def _work(self) -> None:
        while True:
            try:
                turn = self._turns.get(timeout=1.0)
            except queue.Empty:
                self._report_due(time.monotonic())
                continue
            if turn is None:
                self._report_due(float("inf"))
                return
            self._add(turn)
            if self._turns.empty():
                self._report_due(time.monotonic())

    def _add(self, turn: Turn) -> None:
        unreported = self._unreported.setdefault(turn.topic.name, _Unreported(turn.topic))
        unreported.topic = turn.topic
        unreported.committed = unreported.committed.and_then(turn.committed)
        unreported.catalogs = turn.catalogs or unreported.catalogs
        problem = turn.error.problem if turn.error else ""
        if problem != unreported.problem and not turn.is_taken:
            unreported.problem = problem
            self._report_problem(turn)

    def _report_problem(self, turn: Turn) -> None:
        """Once, when it turns up; and once, when it is gone."""
        if turn.error:
            self._context.log.error(f"{turn.topic.name}: {turn.error}")
        try:
            suspension = find_suspension(
                self._tableflow.catalog, turn.topic, self._settings.state_dir
            )
        except TableflowError as error:
            self._context.log.warning(str(error))
            return
        key = table_key(turn.topic, self._settings.namespace)
        self._log_event(suspension_evaluation(key, suspension))

    def _report_due(self, now: float) -> None:
        for name, unreported in self._unreported.items():
            if not unreported.committed.snapshots or now < unreported.due:
                continue
            committed, unreported.committed = unreported.committed, NOTHING
            unreported.due = time.monotonic() + EVERY_SECONDS
            try:
                with named_faults(name, self._settings.state_dir):
                    self._report(unreported, committed)
            except TableflowError as error:  # the rows are committed, whatever happens here
                self._context.log.warning(f"{name} could not be reported: {error}")

    def _report(self, unreported: _Unreported, committed: Committed) -> None:
        topic, catalog = unreported.topic, self._tableflow.catalog
        key = table_key(topic, self._settings.namespace)
        is_full = time.monotonic() >= unreported.full_due
        version = self._delta_version(key, topic, is_full)
        windows = changed_windows(self._context, topic, catalog, committed, version)
        for window, about in windows.items():
            self._log_event(dg.AssetMaterialization(key, partition=window, metadata=about))
        if is_full or committed.dead_letters or committed.skipped:
            report_dead_letters(self._context, topic, catalog, committed)
        for status in unreported.catalogs:
            self._log_check(published(key, status), is_full)
        if is_full:
            unreported.full_due = time.monotonic() + FULL_EVERY_SECONDS
            self._log_event(exactly_once_evaluation(topic, self._tableflow, whole_log=False))

    def _delta_version(self, key: dg.AssetKey, topic: Topic, is_full: bool) -> int:
        if "delta" not in topic.formats:
            return NO_DELTA_VERSION
        evaluation = mirror_evaluation(key, topic, self._tableflow.catalog)
        self._log_check(evaluation, is_full)
        return version_in(evaluation)

    def _log_check(self, evaluation: dg.AssetCheckEvaluation, is_full: bool) -> None:
        """What has not changed is said now and then only."""
        check = (evaluation.asset_key, evaluation.check_name)
        if is_full or self._passed.get(check) != evaluation.passed:
            self._log_event(evaluation)
        self._passed[check] = evaluation.passed

    def _log_event(self, event: Any) -> None:  # its type hints do not know evaluations
        self._context.log_event(event)
