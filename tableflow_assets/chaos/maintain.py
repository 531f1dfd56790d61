"""Maintenance at its roughest: every step at once, and everything that may go is removed immediately."""

from __future__ import annotations

from datetime import timedelta

from tableflow_assets.chaos.driver_process import HUNG_AFTER_SECONDS
from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.maintenance.health import health
from tableflow_assets.operate.maintenance.manifests import rewrite_manifests
from tableflow_assets.operate.maintenance.orphans import remove_orphans
from tableflow_assets.operate.retention import drop_old_windows
from tableflow_assets.table.handle import TableHandle

# A live run's uncommitted files are younger than this: an older run counts as hung.
ORPHANS_OLDER_THAN = timedelta(seconds=HUNG_AFTER_SECONDS + 30)


def maintain_roughly(handle: TableHandle) -> None:
    drop_old_windows(handle, run_id="chaos")
    windows = [window.name for window in health(handle.catalog, handle.spec).windows]
    if windows:
        compact(handle, windows=windows)
    rewrite_manifests(handle)
    expire(handle, older_than=timedelta(0), force=True)
    remove_orphans(handle, older_than=ORPHANS_OLDER_THAN, force=True)
