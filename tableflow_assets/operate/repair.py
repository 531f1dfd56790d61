"""Find what is wrong with a topic's table and its mirror, and mend what can be mended.

The log is the truth about the rows, the Iceberg table about the Delta log. So lost rows are read again,
and a Delta log that says something else is written anew.
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
class Step:
    """``is_done``: false in a dry run."""

    problem: str
    remedy: str
    is_done: bool = False


@dataclass(frozen=True)
class Left:
    """What is for somebody to decide."""

    problem: str
    next_step: str


OnStep = Callable[[Step], None]


@dataclass
class Repaired:
    topic: str
    dry_run: bool
    steps: list[Step] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is, or would be, left."""
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
    """``only``: of lost rows, those of these windows. ``on_step``: is told before each step."""
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
        if all(one.problem != problem for one in self.result.left):
            self.result.left.append(Left(problem, next_step))

    def do(self, problem: str, remedy: str, act: Callable[[], object]) -> None:
        self.on_step(Step(problem, remedy))
        if not self.result.dry_run:
            act()
        self.result.steps.append(Step(problem, remedy, is_done=not self.result.dry_run))

    # --- the Iceberg table --------------------------------------------------------------------

    def ledger(self) -> None:
        """Says so where somebody else has changed the rows."""
        read_ledger(self.table())

    def lost_rows(self, only: Span | None) -> None:
        table = self.table()
        head = table.current_snapshot()
        lost = lost_files(self.pipeline.catalog, table, head) if head else []
        if not lost:
            return
        if self.pipeline.topic.is_keyed or not all(one.has_rows for one in lost):
            self.leave(
                _told(lost),
                "A table with one row a key has no window of its own to read again. Build it anew"
                f" from the log: tableflow rebuild {self.name}",
            )
            return
        gone = self._gone_from_the_log(table, lost)
        for span, files in spans_to_read(table, self.pipeline.topic, lost):
            if only is not None and not span.overlaps(only):
                continue
            if any(one.path in gone for one in files):
                self._leave_lost(files, gone)
                continue
            self.do(
                _told(files),
                f"Read the records of {span} again, and replace the rows.",
                partial(rebuild_windows, self.pipeline, span.start, span.end, self.run_id),
            )

    def _gone_from_the_log(self, table: Table, lost: list[LostFile]) -> dict[str, str]:
        """By file: which of its records cannot be read again."""
        log = self.pipeline.log
        earliest = log.earliest(log.identify(self.name))
        gone = {one.path: lost_offsets(table, one, earliest) for one in lost}
        return {path: offsets for path, offsets in gone.items() if offsets}

    def _leave_lost(self, files: list[LostFile], gone: dict[str, str]) -> None:
        for one in files:
            why = "another file of its windows cannot be had again"
            if offsets := gone.get(one.path):
                why = f"the log of {self.name!r} no longer holds {offsets}"
            self.leave(
                f"{one}, and {why}.",
                "Put the file back from a copy of the bucket. Or give up what the log no longer holds:"
                f" tableflow rebuild {self.name} makes the table anew of what it does hold.",
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
        if not (found := self._delta_findings(table)):
            return
        if all(one.kind == "behind" for one in found):
            remedy = "Write the versions that are missing."
            self.do(_first(found), remedy, lambda: catch_up(catalog, table))
        else:
            remedy = "Write the table's state as a new version of the Delta log."
            self.do(_first(found), remedy, lambda: upkeep.repair(catalog, table))
        if self.result.dry_run or not (found := self._delta_findings(table)):
            return
        self.do(_first(found), "Make a new Delta log.", lambda: upkeep.remake(catalog, table))
        for one in self._delta_findings(table):
            self.leave(
                one.problem, "Report it, with the Delta log. The Iceberg table is as it was."
            )

    def _delta_findings(self, table: Table) -> list[Finding]:
        compared = compare(self.pipeline.catalog, table, patience=0)
        return [one for one in compared.findings if one.kind != "lost_file"]


def _told(lost: list[LostFile]) -> str:
    more = f", and {len(lost) - 1} more files are gone" if len(lost) > 1 else ""
    return f"{lost[0]}{more}."


def _first(found: list[Finding]) -> str:
    return found[0].problem + (f" And {len(found) - 1} more findings." if len(found) > 1 else "")
