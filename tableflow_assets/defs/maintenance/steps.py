"""The steps of maintenance: the library call that does each, and what it reports.

The library is imported when a step runs: parts of it are slow to load, and definitions never need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tableflow_assets.operate.maintenance.health import Kind
from tableflow_assets.table.handle import TableHandle


@dataclass(frozen=True)
class MaintenanceRequest:
    """What the steps of one table carry out."""

    topic: str
    dry_run: bool = False
    strategy: str | None = None
    windows: tuple[str, ...] = ()
    include_newest: bool = False

    @property
    def asks_to_compact(self) -> bool:
        return bool(self.windows) or self.include_newest


Result = dict[str, Any]  # plain values, datetimes, and lists of those


@dataclass(frozen=True)
class Step:
    kind: Kind
    # The last argument is the run's id.
    work: Callable[[TableHandle, MaintenanceRequest, str], Result]


def _mirror(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.table.delta.lifecycle import mirror_status
    from tableflow_assets.table.delta.mirror import catch_up

    table = handle.existing_table()
    versions_written = 0 if request.dry_run else catch_up(handle.catalog, table)
    status = mirror_status(handle.catalog, table)
    return {
        "delta_version": status.version,
        "versions_written": versions_written,
        "states_behind": status.behind,
        "problem": status.problem,
    }


def _retention(handle: TableHandle, request: MaintenanceRequest, run_id: str) -> Result:
    from tableflow_assets.operate.retention import drop_old_windows

    return drop_old_windows(handle, run_id=run_id, dry_run=request.dry_run).to_json()


def _compact(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.operate.maintenance.compact import compact

    result = compact(
        handle,
        strategy=request.strategy,
        windows=request.windows or None,
        include_newest=request.include_newest,
        dry_run=request.dry_run,
    )
    windows = [
        {"window": window, "why": reason or "asked for"}
        for window, reason in zip(result.windows, result.why, strict=True)
    ]
    about = {"strategy": result.strategy, "windows": windows}
    if request.dry_run:  # nothing has been counted
        return about
    return about | {
        "files_before": result.files_before,
        "files_after": result.files_after,
        "bytes": result.bytes,
        "delete_files_removed": result.delete_files_removed,
        "seconds": result.seconds,
    }


def _rewrite_manifests(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.operate.maintenance.manifests import rewrite_manifests

    return rewrite_manifests(handle, dry_run=request.dry_run).to_json()


def _expire(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.operate.maintenance.expire import expire

    result = expire(handle, dry_run=request.dry_run)
    return result.to_json() | {"snapshots": result.snapshots}


def _remove_old_metadata(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.operate.maintenance.old_metadata import remove_old_metadata

    return remove_old_metadata(handle, dry_run=request.dry_run).to_json()


def _remove_orphans(handle: TableHandle, request: MaintenanceRequest, _: str) -> Result:
    from tableflow_assets.operate.maintenance.orphans import remove_orphans

    result = remove_orphans(handle, dry_run=request.dry_run)
    return result.to_json() | {"removed": len(result.files), "bytes": result.bytes}


# In the order of execution, which is the library's: windows about to be dropped are not compacted first,
# and what compaction leaves behind expires after it.
STEPS = (
    Step("mirror", _mirror),
    Step("retention", _retention),
    Step("compact", _compact),
    Step("manifests", _rewrite_manifests),
    Step("expire", _expire),
    Step("metadata", _remove_old_metadata),
    Step("orphans", _remove_orphans),
)
COMPACT_ONLY = tuple(step for step in STEPS if step.kind == "compact")
