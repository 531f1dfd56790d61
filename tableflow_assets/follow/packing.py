"""Small files, merged while commits go on: a table that gets one every few seconds has hundreds in an hour.

Each of them costs every query, and each search for keys, some milliseconds. Maintenance merges them as well,
when its time has come; between those times, this does, and nothing else that maintenance does.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.workers import Limits, Permit, Workers
from tableflow_assets.operate.maintenance.compact import Compacted, compact
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.tableflow import Tableflow

# Then some files are worth merging. Those of a table with keys are searched with every commit.
COMMITS, COMMITS_WITH_KEYS = 40, 10
# A table waits for so many times what its last merge took: a large one is not rewritten all the time.
WAIT = 20.0
TAKEN_SECONDS = 5.0
HUNG_SECONDS = 300.0  # then the table is committed to again


@dataclass(frozen=True)
class PackTurn:
    """What came of one visit to a table."""

    table: ManagedTable
    compacted: Compacted | None = None  # None: nothing was done
    seconds: float = 0.0
    is_taken: bool = False
    error: TableflowError | None = None

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def is_work_done(self) -> bool:
        return self.compacted is not None and self.compacted.files_before > 0

    @property
    def summary(self) -> str:
        before, after = (
            (self.compacted.files_before, self.compacted.files_after) if self.compacted else (0, 0)
        )
        return f"{before} files are {after} now, after {self.seconds:.2f} s"


OnPacked = Callable[[PackTurn], None]


def take_pack_turn(tableflow: Tableflow, table: ManagedTable, permit: Permit) -> PackTurn:
    """Raises nothing: rows are committed with or without it."""
    begin = time.monotonic()
    compacted, is_free, error = None, True, None
    try:
        with named_faults(table.name, tableflow.settings.state_dir), permit(table) as is_free:
            if is_free:
                compacted = compact(tableflow.handle(table))
    except TableflowError as failure:
        error = failure
    seconds = time.monotonic() - begin
    return PackTurn(table, compacted, seconds, is_taken=not is_free, error=error)


class Packing:
    """Only the loop's thread calls it."""

    def __init__(
        self,
        make_tableflow: Callable[[], Tableflow],
        pace: Pace,
        permit: Permit,
        on_packed: OnPacked,
    ) -> None:
        self._commits: Counter[str] = Counter()  # by table, since its files were merged
        self._due: dict[str, ManagedTable] = {}
        self._not_before: dict[str, float] = {}
        self._workers = Workers[ManagedTable, PackTurn](
            make_tableflow,
            lambda tableflow, table: take_pack_turn(tableflow, table, permit),
            Limits(1, pace.products_rest, pace.products_longest_rest, HUNG_SECONDS),
        )
        self._on_packed = on_packed

    @property
    def busy(self) -> set[str]:
        """The tables whose files are being merged, as far as that may still come to an end."""
        return self._workers.busy - self._workers.hung()

    def note_commits(self, table: ManagedTable, commits: int = 1) -> None:
        if table.maintenance is None:  # somebody else looks after it
            return
        self._commits[table.name] += commits
        if self._commits[table.name] >= (COMMITS_WITH_KEYS if table.is_keyed else COMMITS):
            self._due[table.name] = table

    def give_turns(self, now: float, written: set[str]) -> None:
        """The table with the most new files first. ``written``: those that are being committed to."""
        for name in sorted(self._due, key=lambda name: -self._commits[name]):
            if not self._workers.has_room():
                return
            if name not in self._workers.busy | written and now >= self._not_before.get(name, 0.0):
                self._commits[name] = 0
                self._workers.start(self._due.pop(name))

    def settle(self) -> None:
        for turn in self._workers.collect(timeout=0):
            now = time.monotonic()
            self._not_before[turn.name] = now + WAIT * turn.seconds
            if turn.is_taken:
                self._not_before[turn.name] = now + TAKEN_SECONDS
                self._due[turn.name] = turn.table
            self._on_packed(turn)
