"""The runs that our sensors and schedules launch: by whom each was, and whether one is still under way."""

from __future__ import annotations

from typing import Any

import dagster as dg

RUN_TAG = "tableflow/launched_by"
UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)

Config = dict[str, Any]  # of a run


def in_one_process(context: dg.SensorEvaluationContext) -> Config:
    """The config of a run of assets that keeps it in one process, where the code location leaves the choice.

    Each further process would open a Spark session of its own. Our own code location has one process for
    all runs; a project with an executor of its own choice gets that.
    """
    location = context.repository_def
    if location is None or not location.has_implicit_global_asset_job_def():
        return {}
    executor = location.get_implicit_global_asset_job_def().executor_def
    is_free = executor.name == dg.multi_or_in_process_executor.name
    return {"execution": {"config": {"in_process": {}}}} if is_free else {}


def is_under_way(
    instance: dg.DagsterInstance, launched_by: str, tags: dict[str, str] | None = None
) -> bool:
    """Whether a run of this launcher, and with these tags, is unfinished."""
    asked = {RUN_TAG: launched_by} | (tags or {})
    unfinished = dg.RunsFilter(tags=asked, statuses=list(UNFINISHED))
    return bool(instance.get_runs(unfinished, limit=1))
