"""Old runs, removed from Dagster, which keeps all of them for ever: each has a database file and a folder.

Only runs that our own sensors and schedules have launched. What Dagster knows of an asset comes from the
events of runs: so the run with the newest materialization of an asset, or of a window, stays however old,
and so does the run with the newest result of a check.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster import AssetRecordsFilter, DagsterEventType
from dagster._core.storage.event_log import SqliteEventLogStorage

from tableflow_assets.defs.our_runs import RUN_TAG

FINISHED = (
    dg.DagsterRunStatus.SUCCESS,
    dg.DagsterRunStatus.FAILURE,
    dg.DagsterRunStatus.CANCELED,
)
PAGE = 500
# A run's files may be there a moment before the run is known.
LEFT_BEHIND_AFTER = timedelta(days=1)


@dataclass(frozen=True)
class Ours:
    """What is ours in an instance that others may share."""

    launchers: tuple[str, ...]  # sensors and schedules, as they tag their runs
    assets: tuple[dg.AssetKey, ...]
    checks: tuple[dg.AssetCheckKey, ...]

    @property
    def finished_runs(self) -> dg.RunsFilter:
        return dg.RunsFilter(tags={RUN_TAG: list(self.launchers)}, statuses=list(FINISHED))


def prune_runs(
    instance: dg.DagsterInstance, ours: Ours, before: datetime, at_most: int, limit: int
) -> int:
    """Remove runs from ``before``, and the oldest beyond ``at_most``; return how many.

    Up to ``limit``: what is left then goes the next time.
    """
    needed = _needed_runs(instance, ours)
    surplus = instance.get_runs_count(ours.finished_runs) - len(needed) - at_most
    doomed: list[str] = []
    for record in _oldest_first(instance, ours):
        is_surplus = len(doomed) < surplus
        if len(doomed) == limit or not (is_surplus or record.create_timestamp < before):
            break
        if record.dagster_run.run_id not in needed:
            doomed.append(record.dagster_run.run_id)
    for run_id in doomed:
        _delete(instance, run_id)
    return len(doomed)


def remove_files_left_behind(instance: dg.DagsterInstance, now: datetime) -> int:
    """Of runs that are gone: we were killed between the two."""
    storage = instance.event_log_storage
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    # Without the file of the events that belong to no run, whose name is empty.
    strays = {*filter(None, storage.get_all_run_ids())} - set(instance.get_run_ids())
    limit = (now - LEFT_BEHIND_AFTER).timestamp()
    left_behind = [
        run for run in strays if Path(storage.path_for_shard(run)).stat().st_mtime < limit
    ]
    for run_id in left_behind:
        _delete_files(instance, run_id)
    return len(left_behind)


def _oldest_first(instance: dg.DagsterInstance, ours: Ours) -> Iterator[dg.RunRecord]:
    cursor: str | None = None
    while page := instance.get_run_records(
        ours.finished_runs, limit=PAGE, cursor=cursor, ascending=True
    ):
        yield from page
        cursor = page[-1].dagster_run.run_id


def _needed_runs(instance: dg.DagsterInstance, ours: Ours) -> set[str]:
    needed: set[str] = set()
    for key in ours.assets:
        if newest := instance.get_latest_materialization_event(key):
            needed.add(newest.run_id)
        needed.update(r.run_id for r in instance.fetch_observations(key, limit=1).records)
        needed |= _runs_of_partitions(instance, key)
    checks = instance.event_log_storage.get_latest_asset_check_execution_by_key(ours.checks)
    needed |= {execution.run_id for execution in checks.values()}
    run_ids = sorted(filter(None, needed))
    known = instance.get_runs(dg.RunsFilter(run_ids=run_ids)) if run_ids else ()
    return {run.run_id for run in known if run.tags.get(RUN_TAG) in ours.launchers}


def _runs_of_partitions(instance: dg.DagsterInstance, key: dg.AssetKey) -> set[str]:
    materialization = DagsterEventType.ASSET_MATERIALIZATION
    newest = list(instance.get_latest_storage_id_by_partition(key, materialization).values())
    runs: set[str] = set()
    for at in range(0, len(newest), PAGE):
        these = AssetRecordsFilter(asset_key=key, storage_ids=newest[at : at + PAGE])
        runs.update(r.run_id for r in instance.fetch_materializations(these, limit=PAGE).records)
    return runs


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    instance.delete_run(run_id)
    _delete_files(instance, run_id)


def _delete_files(instance: dg.DagsterInstance, run_id: str) -> None:
    """What the IO manager has kept, and the run's own database, which Dagster only empties."""
    shutil.rmtree(Path(instance.storage_directory()) / run_id, ignore_errors=True)
    storage = instance.event_log_storage
    if isinstance(storage, SqliteEventLogStorage):
        for suffix in ("", "-wal", "-shm"):
            Path(storage.path_for_shard(run_id) + suffix).unlink(missing_ok=True)
