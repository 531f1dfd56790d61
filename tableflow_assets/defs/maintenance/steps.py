"""The steps of maintenance: what each is called in Dagster, and the library call that does it.

The library is imported when a step runs: parts of it take a while to load, and definitions never need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tableflow_assets.operate.maintenance.health import Kind
from tableflow_assets.table.handle import TableHandle


@dataclass(frozen=True)
class Wanted:
    """What the steps of one topic are told."""

    topic: str
    dry_run: bool = False
    strategy: str | None = None
    windows: tuple[str, ...] = ()
    include_newest: bool = False

    @property
    def asks_to_compact(self) -> bool:
        return bool(self.windows) or self.include_newest


Result = dict[str, Any]  # of plain values, datetimes, and lists of such


@dataclass(frozen=True)
class Step:
    kind: Kind
    op: str  # its name
    description: str
    work: Callable[[TableHandle, Wanted, str], Result]  # the last: the run's id


def _mirror(handle: TableHandle, wanted: Wanted, _: str) -> Result:
    from tableflow_assets.table.delta.lifecycle import mirror_status
    from tableflow_assets.table.delta.mirror import catch_up

    table = handle.existing_table()
    written = 0 if wanted.dry_run else catch_up(handle.catalog, table)
    found = mirror_status(handle.catalog, table)
    return {
        "delta_version": found.version,
        "versions_written": written,
        "states_behind": found.behind,
        "problem": found.problem,
    }


def _retention(handle: TableHandle, wanted: Wanted, run_id: str) -> Result:
    from tableflow_assets.operate.retention import drop_old_windows

    return drop_old_windows(handle, run_id=run_id, dry_run=wanted.dry_run).to_json()


def _compact(handle: TableHandle, wanted: Wanted, _: str) -> Result:
    from tableflow_assets.operate.maintenance.compact import compact

    done = compact(
        handle,
        strategy=wanted.strategy,
        windows=wanted.windows or None,
        include_newest=wanted.include_newest,
        dry_run=wanted.dry_run,
    )
    windows = [
        {"window": window, "why": why or "asked for"}
        for window, why in zip(done.windows, done.why, strict=True)
    ]
    about = {"strategy": done.strategy, "windows": windows}
    if wanted.dry_run:  # then nobody has counted
        return about
    return about | {
        "files_before": done.files_before,
        "files_after": done.files_after,
        "bytes": done.bytes,
        "delete_files_removed": done.delete_files_removed,
        "seconds": done.seconds,
    }


def _rewrite_manifests(handle: TableHandle, wanted: Wanted, _: str) -> Result:
    from tableflow_assets.operate.maintenance.manifests import rewrite_manifests

    return rewrite_manifests(handle, dry_run=wanted.dry_run).to_json()


def _expire(handle: TableHandle, wanted: Wanted, _: str) -> Result:
    from tableflow_assets.operate.maintenance.expire import expire

    done = expire(handle, dry_run=wanted.dry_run)
    return done.to_json() | {"snapshots": done.snapshots}


def _remove_orphans(handle: TableHandle, wanted: Wanted, _: str) -> Result:
    from tableflow_assets.operate.maintenance.orphans import remove_orphans

    done = remove_orphans(handle, dry_run=wanted.dry_run)
    return done.to_json() | {"removed": len(done.files), "bytes": done.bytes}


COMPACT_OP = "compact_files"
# In the order in which they are done, which is the library's. What is to be dropped is not compacted
# before, and what compaction leaves behind expires after it.
STEPS = (
    Step("mirror", "mirror", "Bring the Delta log up to the Iceberg table.", _mirror),
    Step("retention", "retention", "Drop the windows that are too old.", _retention),
    Step("compact", COMPACT_OP, "Make few large files of many small ones.", _compact),
    Step("manifests", "rewrite_manifests", "Merge small manifests.", _rewrite_manifests),
    Step("expire", "expire", "Expire snapshots that are too old, with their files.", _expire),
    Step("orphans", "remove_orphans", "Remove files that belong to nothing.", _remove_orphans),
)
