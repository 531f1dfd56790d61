"""Find what is wrong with a topic's table and its mirror, and fix what can be fixed.

The log is the source of truth for the rows, the Iceberg table for the Delta log. So lost rows are read
again, and a Delta log that differs is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.operate.repair_windows import Span, lost_offsets, spans_to_read
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta import log as logs
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.delta.compare_files import Finding
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root, is_delta
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.lost_files import LostFile, lost_files


@dataclass(frozen=True)
class RepairStep:
    """``is_done``: false in a dry run."""

    problem: str
    remedy: str
    is_done: bool = False


@dataclass(frozen=True)
class OpenProblem:
    """What somebody has to decide."""

    problem: str
    next_step: str


OnStep = Callable[[RepairStep], None]


@dataclass
class Repaired:
    topic: str
    dry_run: bool
    steps: list[RepairStep] = field(default_factory=list)
    left: list[OpenProblem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is, or would be, left open."""
        return not self.left

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ok": self.ok}


def repair(
    pipeline: Pipeline,
    *,
    only: Span | None = None,
    run_id: str = "",
    dry_run: bool = False,
    on_step: OnStep = lambda _: None,
) -> Repaired:
    """``only``: read lost rows again only in these windows. ``on_step``: called before each step."""
    work = _Repair(pipeline, run_id, on_step, Repaired(pipeline.topic.name, dry_run))
    for look in (work.ledger, lambda: work.lost_rows(only), work.delta_log):
        try:
            look()
        except TableflowError as error:
            work.leave(error.problem, error.next_step)
    return work.result


@dataclass(frozen=True)
class _Repair:
    pipeline: Pipeline
    run_id: str
    on_step: OnStep
    result: Repaired

    @property
    def name(self) -> str:
        return self.pipeline.topic.name

    def table(self) -> Table:
        return self.pipeline.existing_table("repair")

    def leave(self, problem: str, next_step: str) -> None:
        if all(open_problem.problem != problem for open_problem in self.result.left):
            self.result.left.append(OpenProblem(problem, next_step))

    def do(self, problem: str, remedy: str, act: Callable[[], object]) -> None:
        self.on_step(RepairStep(problem, remedy))
        if not self.result.dry_run:
            act()
        self.result.steps.append(RepairStep(problem, remedy, is_done=not self.result.dry_run))

    # --- the Iceberg table --------------------------------------------------------------------

    def ledger(self) -> None:
        """Raises where somebody else has changed the rows."""
        read_ledger(self.table())

    def lost_rows(self, only: Span | None) -> None:
        table = self.table()
        head = table.current_snapshot()
        damaged = lost_files(self.pipeline.catalog, table, head) if head else []
        if not damaged:
            return
        if self.pipeline.topic.is_keyed or not all(file.has_rows for file in damaged):
            self.leave(
                _summary(damaged),
                "A table with one row per key has no single window to read again. Rebuild it"
                f" from the log: tableflow rebuild {self.name}",
            )
            return
        unreadable = self._gone_from_the_log(table, damaged)
        for span, files in spans_to_read(table, self.pipeline.topic, damaged):
            if only is not None and not span.overlaps(only):
                continue
            if any(file.path in unreadable for file in files):
                self._leave_lost(files, unreadable)
                continue
            self.do(
                _summary(files),
                f"Read the records of {span} again, and replace the rows.",
                partial(rebuild_windows, self.pipeline, span.start, span.end, self.run_id),
            )

    def _gone_from_the_log(self, table: Table, damaged: list[LostFile]) -> dict[str, str]:
        """By file: which of its records can no longer be read."""
        log = self.pipeline.log
        earliest = log.earliest(log.identify(self.name))
        epoch = read_ledger(table).entry.epoch
        expired_offsets = {
            file.path: lost_offsets(table, file, earliest, epoch) for file in damaged
        }
        return {path: offsets for path, offsets in expired_offsets.items() if offsets}

    def _leave_lost(self, files: list[LostFile], unreadable: dict[str, str]) -> None:
        for file in files:
            why = "another file of its windows cannot be restored"
            if offsets := unreadable.get(file.path):
                why = f"the log of {self.name!r} no longer holds {offsets}"
            self.leave(
                f"{file}, and {why}.",
                "Put the file back from a copy of the bucket. Or give up what the log no longer holds:"
                f" tableflow rebuild {self.name} --lose-rows builds the table again from what it does hold.",
            )

    # --- the Delta log ------------------------------------------------------------------------

    def delta_log(self) -> None:
        catalog, table = self.pipeline.catalog, self.table()
        if not is_delta(table):
            if store_at(delta_root(table), catalog.storage).names(logs.FOLDER):
                self.do(
                    f"{self.name!r} is not kept as Delta, but there is a Delta log.",
                    "Remove the Delta log.",
                    lambda: upkeep.drop(catalog, table),
                )
            return
        if not (findings := self._delta_findings(table)):
            return
        if all(finding.kind == "behind" for finding in findings):
            remedy = "Write the versions that are missing."
            self.do(_first_problem(findings), remedy, lambda: catch_up(catalog, table))
        else:
            remedy = "Write the table's state as a new version of the Delta log."
            self.do(_first_problem(findings), remedy, lambda: upkeep.repair(catalog, table))
        if self.result.dry_run or not (findings := self._delta_findings(table)):
            return
        self.do(
            _first_problem(findings), "Make a new Delta log.", lambda: upkeep.remake(catalog, table)
        )
        for finding in self._delta_findings(table):
            self.leave(
                finding.problem, "Report it, with the Delta log. The Iceberg table is as it was."
            )

    def _delta_findings(self, table: Table) -> list[Finding]:
        comparison = compare(self.pipeline.catalog, table, patience=0)
        return [finding for finding in comparison.findings if finding.kind != "lost_file"]


def _summary(damaged: list[LostFile]) -> str:
    more = f", and {len(damaged) - 1} more files are gone" if len(damaged) > 1 else ""
    return f"{damaged[0]}{more}."


def _first_problem(findings: list[Finding]) -> str:
    return findings[0].problem + (
        f" And {len(findings) - 1} more findings." if len(findings) > 1 else ""
    )
