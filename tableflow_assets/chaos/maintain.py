"""Maintenance as rough as can be: everything at once, and all that may go goes at once."""

from __future__ import annotations

from datetime import timedelta

from tableflow_assets.chaos.driver_process import HUNG_AFTER_SECONDS
from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.maintenance.health import health
from tableflow_assets.operate.maintenance.manifests import rewrite_manifests
from tableflow_assets.operate.maintenance.orphans import remove_orphans
from tableflow_assets.operate.retention import drop_old_windows
from tableflow_assets.pipeline import Pipeline

# Whatever a run has written without committing it is younger: an older run counts as hung.
ORPHANS_OLDER_THAN = timedelta(seconds=HUNG_AFTER_SECONDS + 30)


def maintain_roughly(pipeline: Pipeline) -> None:
    drop_old_windows(pipeline, run_id="chaos")
    windows = [window.name for window in health(pipeline.catalog, pipeline.topic).windows]
    if windows:
        compact(pipeline, windows=windows)
    rewrite_manifests(pipeline)
    expire(pipeline, older_than=timedelta(0), force=True)
    remove_orphans(pipeline, older_than=ORPHANS_OLDER_THAN, force=True)
