"""A run's way through the tables: each gets what it needs, and none can stop the others.

Ingestion goes first: every step waits for the table's pool, and gives it back.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import OF_ALL, named_faults
from tableflow_assets.defs.maintenance.check import maintenance_evaluation, what_is_needed
from tableflow_assets.defs.maintenance.progress import note_left
from tableflow_assets.defs.maintenance.steps import MaintenanceRequest, Result, Step
from tableflow_assets.defs.metadata import maintenance_metadata
from tableflow_assets.defs.names import table_key, table_pool
from tableflow_assets.defs.pools import in_pool
from tableflow_assets.operate.maintenance.health import Health, Kind, health
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.suspension import find_suspension
from tableflow_assets.tableflow import Tableflow

# A turn of the staying run ends after 20 s. A table that is taken for longer comes once more at the end.
POOL_SECONDS = 30.0
VISITS = 2
# After a step that has held the table's pool for so long, others get it first if they want it: a staying
# run tries a table that is taken again after a second.
LONG_STEP_SECONDS, LET_IN_SECONDS = 1.0, 1.5
# So many tables in a row that fail for want of a server: it is not theirs, and the run ends.
WITHOUT_SERVER = 3
FAILED, LATER, NOT_NEEDED = "failed", "later", "not needed"


@dataclass
class TableReport:
    """``outcomes``: of the steps that it needed. ``is_left``: not all of it was done, for want of time."""

    name: str
    outcomes: dict[Kind, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    is_left: bool = False

    @property
    def may_come_again(self) -> bool:
        return self.is_left and not self.problems

    def row(self, steps: Sequence[Step]) -> dict[str, str]:
        """What became of every step, side by side. Of a table that is not done with, more may be needed."""
        others = "" if self.problems or self.is_left else NOT_NEEDED
        by_step: dict[str, str] = {
            step.kind: self.outcomes.get(step.kind, others) for step in steps
        }
        return {"table": self.name, **by_step, "problems": "\n".join(self.problems)}

    def fail(self, subject: str, error: TableflowError) -> None:
        self.problems.append(f"{subject}: {error}")


class Round:
    def __init__(
        self,
        context: dg.OpExecutionContext,
        tableflow: Tableflow,
        tables: Mapping[str, ManagedTable],
        steps: Sequence[Step],
        limit_seconds: float | None,
    ) -> None:
        self._context, self._tableflow = context, tableflow
        self._tables, self._steps = tables, steps
        self._deadline = None if limit_seconds is None else time.monotonic() + limit_seconds
        self._without_server = 0

    def run(self, requests: Sequence[MaintenanceRequest]) -> list[TableReport]:
        """Raises only if a server is away that all tables need."""
        queue = deque(requests)
        visits = dict.fromkeys((request.topic for request in requests), 0)
        reports: dict[str, TableReport] = {}
        left: list[str] = []
        while queue:
            request = queue.popleft()
            name = request.topic
            visits[name] += 1
            # Also if the process ends here and now.
            self._note_left([*left, *(other.topic for other in queue)])
            report = reports.setdefault(name, TableReport(name))
            try:
                self._visit(request, report)
            except OF_ALL:
                self._note_left([*left, name, *(other.topic for other in queue)])
                raise
            if report.may_come_again and visits[name] < VISITS and not self._is_over():
                queue.append(request)
            elif report.is_left:
                left.append(name)
        self._note_left(left)
        if left:
            self._context.log.info(f"left to the next run: {', '.join(left)}")
        return list(reports.values())

    def _visit(self, request: MaintenanceRequest, report: TableReport) -> None:
        try:
            with named_faults(request.topic, self._tableflow.settings.state_dir):
                self._look_after(self._tables[request.topic], request, report)
            self._without_server = 0
        except OF_ALL as error:
            report.is_left = self._deadline is not None
            report.fail(request.topic, error)
            self._without_server += 1
            if self._without_server >= WITHOUT_SERVER:
                raise
        except TableflowError as error:
            report.fail(request.topic, error)
            self._context.log.error(f"{request.topic}: {error}")

    def _note_left(self, names: Sequence[str]) -> None:
        if self._deadline is not None:
            note_left(self._context.instance, self._context.run_id, names)

    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _look_after(
        self, table: ManagedTable, request: MaintenanceRequest, report: TableReport
    ) -> None:
        report.is_left = self._is_over()
        if report.is_left:
            return
        catalog, state_dir = self._tableflow.catalog, self._tableflow.settings.state_dir
        if suspension := find_suspension(catalog, table, state_dir):
            raise suspension.to_error(table)
        table_health = health(catalog, table)
        for step in self._steps:
            # Every step may change what the next one needs.
            is_asked_for = step.kind == "compact" and request.asks_to_compact
            if step.kind not in table_health.kinds and not is_asked_for:
                continue
            report.outcomes[step.kind] = self._try(step, table, request, report)
            if report.is_left:
                break
            if not request.dry_run:
                table_health = health(catalog, table)
        self._report(table, table_health, report)

    def _try(
        self, step: Step, table: ManagedTable, request: MaintenanceRequest, report: TableReport
    ) -> str:
        """What became of it. A step that fails stops no other."""
        begin = time.monotonic()
        try:
            with named_faults(f"{table.name} {step.kind}", self._tableflow.settings.state_dir):
                result = self._do(step, table, request)
        except OF_ALL:
            report.outcomes[step.kind] = FAILED
            raise
        except TableflowError as error:
            report.fail(f"{table.name}: {step.kind}", error)
            self._context.log.error(f"{table.name}: {step.kind} failed: {error}")
            return FAILED
        if result is None:
            report.is_left = True
            return LATER
        if request.dry_run:
            self._context.log.info(f"{table.name}: {step.kind} would be done: {result}")
            return "would be done"
        about = {"step": step.kind, **maintenance_metadata(result)}
        key = table_key(table, self._tableflow.settings.namespace)
        self._context.log_event(dg.AssetObservation(asset_key=key, metadata=about))
        return f"done in {time.monotonic() - begin:.1f} s"

    def _do(self, step: Step, table: ManagedTable, request: MaintenanceRequest) -> Result | None:
        """Its result; None if it is left to another time."""
        handle = self._tableflow.handle(table)
        if request.dry_run:
            return step.work(handle, request, self._context.run_id)
        if self._is_over():
            return None
        with self._pool(table) as is_held:
            if not is_held:
                return None
            begin = time.monotonic()
            result = step.work(handle, request, self._context.run_id)
        if time.monotonic() - begin > LONG_STEP_SECONDS:
            time.sleep(LET_IN_SECONDS)
        return result

    def _pool(self, table: ManagedTable) -> AbstractContextManager[bool]:
        within = None if self._deadline is None else POOL_SECONDS
        return in_pool(self._context, table_pool(table), within=within)

    def _report(self, table: ManagedTable, table_health: Health, report: TableReport) -> None:
        """In the run's log, and as the table's check."""
        outcomes = [f"{kind} {outcome}" for kind, outcome in report.outcomes.items()]
        summary = "; ".join([*outcomes, what_is_needed(table_health)])
        self._context.log.info(f"{table.name}: {summary}")
        key = table_key(table, self._tableflow.settings.namespace)
        # Any: the type hints of `log_event` do not know evaluations.
        evaluation: Any = maintenance_evaluation(key, table_health)
        self._context.log_event(evaluation)
