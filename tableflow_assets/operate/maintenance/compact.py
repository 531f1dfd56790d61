"""Fewer, larger files with the same rows, in the windows that need it.

Readers and writers carry on meanwhile: the rewrite is a commit of its own, which says that no row has
changed. A writer that it overtakes plans again; a rewrite that a writer overtakes is done again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.operate.maintenance.content import content_of
from tableflow_assets.operate.maintenance.file_groups import FileGroups
from tableflow_assets.operate.maintenance.health import (
    Remedy,
    Window,
    letters_window,
    windows_of,
)
from tableflow_assets.operate.maintenance.procedure import (
    beside_writers,
    call,
    literal,
    options,
)
from tableflow_assets.operate.maintenance.strategy import arguments_of, sorts_all
from tableflow_assets.settings.layout_terms import in_sql
from tableflow_assets.table.delta.mirror import follow
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.layout import DELETE_MODE, MARK_ROWS
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.letters.letters import PLACE

# The most that one commit rewrites: large enough that a writer beside it is rarely overtaken, small
# enough that little is lost when a rewrite is overtaken or killed.
BYTES_AT_ONCE = 8 * 2**30


@dataclass(frozen=True)
class Compacted:
    """The windows that were rewritten or, in a dry run, would be; and what changed."""

    topic: str
    dry_run: bool
    strategy: str
    windows: tuple[str, ...] = ()
    why: tuple[str, ...] = ()  # window by window
    files_before: int = 0
    files_after: int = 0
    bytes: int = 0
    delete_files_removed: int = 0
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def compact(
    handle: TableHandle,
    *,
    strategy: str | None = None,
    windows: Sequence[str] | None = None,
    include_newest: bool = False,
    dry_run: bool = False,
) -> Compacted:
    """``windows``: by name; None: those that need it, except the one being written, and the dead letters.

    ``include_newest``: that one as well, however few files it has.
    """
    started = time.monotonic()
    report = _compact_table(
        handle, strategy or handle.spec.compaction, windows, include_newest, dry_run
    )
    if not windows:
        report = _with_letters(handle, report, include_newest)
    return replace(report, seconds=0.0 if dry_run else round(time.monotonic() - started, 2))


def _compact_table(
    handle: TableHandle,
    strategy: str,
    windows: Sequence[str] | None,
    include_newest: bool,
    dry_run: bool,
) -> Compacted:
    compaction = _Compaction(handle)
    arguments = arguments_of(strategy, handle.spec, compaction.table)
    selection = compaction.select_windows(windows, include_newest)
    report = Compacted(
        topic=handle.spec.name,
        dry_run=dry_run,
        strategy=strategy,
        windows=tuple(window.name for window in selection),
        why=tuple(window.why for window in selection),
    )
    if dry_run or not selection:
        return report
    compaction.handle = handle.sized_for(sum(window.rows for window in selection))
    for remedy, batch in _batches(selection, rewrite_all=sorts_all(strategy)):
        report = _plus(report, compaction.rewrite(batch, remedy, arguments))
    if compaction.groups.buckets:
        delete_files_left = compaction.merge_marks(selection)
        removed = sum(window.delete_files for window in selection) - delete_files_left
        report = replace(report, delete_files_removed=max(removed, 0))
    reached("compacted")
    follow(handle.catalog, compaction.table)
    return report


def _with_letters(handle: TableHandle, report: Compacted, include_newest: bool) -> Compacted:
    """The report, and the dead letters' table too: every commit looks into it."""
    letters = handle.catalog.find(handle.spec.dead_letter_table)
    if letters is None:
        return report
    window = letters_window(handle.catalog, letters, handle.spec)
    if not window.remedy and not (include_newest and window.files > 1):
        return report
    report = replace(report, windows=(*report.windows, window.name), why=(*report.why, window.why))
    if report.dry_run:
        return report
    settings = {"target-file-size-bytes": handle.spec.target_file_bytes, "min-input-files": 2}
    arguments = {
        # In the order in which they are looked up.
        "strategy": "'sort'",
        "sort_order": literal(", ".join(f"{in_sql((column,))} ASC" for column in PLACE)),
        "options": options(settings),
    }
    name = handle.spec.dead_letter_table
    result = beside_writers(lambda: call(handle, "rewrite_data_files", name, arguments))
    return _plus(report, _counted(report.topic, result))


def _counted(topic: str, result: Any) -> Compacted:
    """What a rewrite of data files has done."""
    return Compacted(
        topic=topic,
        dry_run=False,
        strategy="",
        files_before=result["rewritten_data_files_count"],
        files_after=result["added_data_files_count"],
        bytes=result["rewritten_bytes_count"],
    )


class _Compaction:
    """The table as it was loaded, and the procedures that change it."""

    def __init__(self, handle: TableHandle) -> None:
        self.handle, self.topic = handle, handle.spec
        self.table: Table = handle.existing_table()
        # Raises if somebody else has changed the table: it stays as it is until that is resolved.
        read_ledger(self.table)
        self.groups = FileGroups(self.table, self.topic)

    def windows(self) -> tuple[Window, ...]:
        catalog = self.handle.catalog
        catalog.ask(self.table.refresh)
        content = catalog.ask(lambda: content_of(self.table, self.topic, self.groups))
        return windows_of(content, self.topic, self.groups, datetime.now(UTC))

    def select_windows(self, names: Sequence[str] | None, include_newest: bool) -> list[Window]:
        by_name = {window.name: window for window in self.windows()}
        if names:
            if unknown := [name for name in names if name not in by_name]:
                raise MaintenanceFailed(
                    f"The table of {self.topic.name!r} has no window {unknown[0]!r} with rows.",
                    f"`tableflow maintenance {self.topic.name}` shows those that it has.",
                )
            return [by_name[name] for name in dict.fromkeys(names)]
        return [
            window
            for window in by_name.values()
            if window.remedy or (include_newest and window.is_newest and window.files > 1)
        ]

    def rewrite(
        self, windows: Sequence[Window], remedy: Remedy, arguments: dict[str, str]
    ) -> Compacted:
        settings = {
            "target-file-size-bytes": self.topic.target_file_bytes,
            "min-input-files": 2,  # which windows are worth it has been decided already
            "remove-dangling-deletes": str(self._marks_rows).lower(),
            **({"rewrite-all": "true"} if remedy == "rewrite" else {}),
        }
        result = self._call(
            "rewrite_data_files", windows, arguments | {"options": options(settings)}
        )
        return _counted(self.topic.name, result)

    @property
    def _marks_rows(self) -> bool:
        return self.table.properties.get(DELETE_MODE) == MARK_ROWS

    def merge_marks(self, windows: Iterable[Window]) -> int:
        """Merge the delete files, dropping marks of files that are gone; return how many are left."""
        names = {window.name for window in windows}
        with_marks = [w for w in self.windows() if w.name in names and w.delete_files]
        if not with_marks:
            return 0
        rewrite_all = {"options": options({"rewrite-all": "true"})}
        result = self._call("rewrite_position_delete_files", with_marks, rewrite_all)
        removed = result["rewritten_delete_files_count"] - result["added_delete_files_count"]
        return sum(window.delete_files for window in with_marks) - int(removed)

    def _call(self, procedure: str, windows: Iterable[Window], arguments: dict[str, str]) -> Any:
        groups = (window.group for window in windows)
        condition = self.groups.condition(groups, self.handle.spark_catalog)
        where = {"where": literal(condition)} if condition else {}
        reached("compacting")
        return beside_writers(
            lambda: call(self.handle, procedure, self.topic.table, arguments | where)
        )


def _batches(
    windows: Iterable[Window], *, rewrite_all: bool
) -> Iterator[tuple[Remedy, list[Window]]]:
    """Windows with the same remedy, up to ``BYTES_AT_ONCE``."""
    by_remedy: dict[Remedy, list[Window]] = {"pack": [], "rewrite": []}
    for window in windows:
        by_remedy["rewrite" if rewrite_all or window.remedy == "rewrite" else "pack"].append(window)
    for remedy, group in by_remedy.items():
        batch: list[Window] = []
        for window in group:
            if batch and sum(w.bytes for w in [*batch, window]) > BYTES_AT_ONCE:
                yield remedy, batch
                batch = []
            batch.append(window)
        if batch:
            yield remedy, batch


def _plus(report: Compacted, batch: Compacted) -> Compacted:
    return replace(
        report,
        files_before=report.files_before + batch.files_before,
        files_after=report.files_after + batch.files_after,
        bytes=report.bytes + batch.bytes,
    )
