"""Fewer and fuller files with the same rows, in the windows that need it.

Readers and writers go on meanwhile: the rewrite is one commit of its own, which says that no row has
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
from tableflow_assets.operate.maintenance.file_groups import Places
from tableflow_assets.operate.maintenance.health import Remedy, Window, windows_of
from tableflow_assets.operate.maintenance.procedure import (
    beside_writers,
    call,
    literal,
    options,
)
from tableflow_assets.operate.maintenance.strategy import arguments_of, sorts_all
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.mirror import follow
from tableflow_assets.table.layout import DELETE_MODE, MARK_ROWS
from tableflow_assets.table.ledger import read_ledger

# What one commit rewrites at most: large enough that a writer beside it is rarely overtaken, small
# enough that a rewrite that is overtaken, or killed, loses little.
BYTES_AT_ONCE = 8 * 2**30


@dataclass(frozen=True)
class Compacted:
    """The windows that were rewritten or, in a dry run, would be; and what that has changed."""

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
    pipeline: Pipeline,
    *,
    strategy: str | None = None,
    windows: Sequence[str] | None = None,
    include_newest: bool = False,
    dry_run: bool = False,
) -> Compacted:
    """Without ``windows`` (their names): those that need it, and not the one being written.

    ``include_newest``: that one as well, however few its files are.
    """
    began = time.monotonic()
    look = _Look(pipeline)
    strategy = strategy or pipeline.topic.compaction
    arguments = arguments_of(strategy, pipeline.topic, look.table)
    chosen = look.chosen(windows, include_newest)
    report = Compacted(
        topic=pipeline.topic.name,
        dry_run=dry_run,
        strategy=strategy,
        windows=tuple(window.name for window in chosen),
        why=tuple(window.why for window in chosen),
    )
    if dry_run or not chosen:
        return report
    for remedy, batch in _batches(chosen, everything=sorts_all(strategy)):
        report = _and(report, look.rewrite(batch, remedy, arguments))
    if look.places.buckets:
        left = look.merge_marks(chosen)
        removed = sum(window.delete_files for window in chosen) - left
        report = replace(report, delete_files_removed=max(removed, 0))
    reached("compacted")
    follow(pipeline.catalog, look.table)
    return replace(report, seconds=round(time.monotonic() - began, 2))


class _Look:
    """The table as it was found, and the procedures that change it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline, self.topic = pipeline, pipeline.topic
        self.table: Table = pipeline.existing_table()
        # A table that somebody else has changed stays as it is until that is resolved.
        read_ledger(self.table)
        self.places = Places(self.table, self.topic)

    def windows(self) -> tuple[Window, ...]:
        catalog = self.pipeline.catalog
        catalog.ask(self.table.refresh)
        content = catalog.ask(lambda: content_of(self.table, self.topic, self.places))
        return windows_of(content, self.topic, self.places, datetime.now(UTC))

    def chosen(self, names: Sequence[str] | None, include_newest: bool) -> list[Window]:
        known = {window.name: window for window in self.windows()}
        if names:
            if unknown := [name for name in names if name not in known]:
                raise MaintenanceFailed(
                    f"The table of {self.topic.name!r} has no window {unknown[0]!r} with rows.",
                    f"`tableflow maintenance {self.topic.name}` shows those that it has.",
                )
            return [known[name] for name in dict.fromkeys(names)]
        return [
            window
            for window in known.values()
            if window.remedy or (include_newest and window.is_newest and window.files > 1)
        ]

    def rewrite(
        self, windows: Sequence[Window], remedy: Remedy, arguments: dict[str, str]
    ) -> Compacted:
        how = {
            "target-file-size-bytes": self.topic.target_file_bytes,
            "min-input-files": 2,  # which windows are worth it is decided already
            "remove-dangling-deletes": str(self._marks_rows).lower(),
            **({"rewrite-all": "true"} if remedy == "rewrite" else {}),
        }
        done = self._call("rewrite_data_files", windows, arguments | {"options": options(how)})
        return Compacted(
            topic=self.topic.name,
            dry_run=False,
            strategy="",
            files_before=done["rewritten_data_files_count"],
            files_after=done["added_data_files_count"],
            bytes=done["rewritten_bytes_count"],
        )

    @property
    def _marks_rows(self) -> bool:
        return self.table.properties.get(DELETE_MODE) == MARK_ROWS

    def merge_marks(self, windows: Iterable[Window]) -> int:
        """Of the delete files that are left, few remain, without marks about files that are gone."""
        names = {window.name for window in windows}
        left = [one for one in self.windows() if one.name in names and one.delete_files]
        if not left:
            return 0
        how = {"options": options({"rewrite-all": "true"})}
        done = self._call("rewrite_position_delete_files", left, how)
        merged = done["rewritten_delete_files_count"] - done["added_delete_files_count"]
        return sum(window.delete_files for window in left) - int(merged)

    def _call(self, procedure: str, windows: Iterable[Window], arguments: dict[str, str]) -> Any:
        places = (window.place for window in windows)
        condition = self.places.condition(places, self.pipeline.spark_catalog)
        where = {"where": literal(condition)} if condition else {}
        reached("compacting")
        return beside_writers(
            lambda: call(self.pipeline, procedure, self.topic.table, arguments | where)
        )


def _batches(
    windows: Iterable[Window], *, everything: bool
) -> Iterator[tuple[Remedy, list[Window]]]:
    """Windows of one remedy, up to so many bytes."""
    by_remedy: dict[Remedy, list[Window]] = {"pack": [], "rewrite": []}
    for window in windows:
        by_remedy["rewrite" if everything or window.remedy == "rewrite" else "pack"].append(window)
    for remedy, chosen in by_remedy.items():
        batch: list[Window] = []
        for window in chosen:
            if batch and sum(one.bytes for one in [*batch, window]) > BYTES_AT_ONCE:
                yield remedy, batch
                batch = []
            batch.append(window)
        if batch:
            yield remedy, batch


def _and(report: Compacted, more: Compacted) -> Compacted:
    return replace(
        report,
        files_before=report.files_before + more.files_before,
        files_after=report.files_after + more.files_after,
        bytes=report.bytes + more.bytes,
    )
