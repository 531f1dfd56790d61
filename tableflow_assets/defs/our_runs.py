"""The runs that our sensors and schedules launch: who launched each, and whether one is still under way."""

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
    """Run config that keeps a run of assets in one process, if the code location leaves that choice.

    Every additional process would open another Spark session. Our own code location uses one process
    per run; a project that has chosen an executor keeps it.
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
    """Whether a run by this launcher with these tags is unfinished."""
    run_tags = {RUN_TAG: launched_by} | (tags or {})
    runs_filter = dg.RunsFilter(tags=run_tags, statuses=list(UNFINISHED))
    return bool(instance.get_runs(runs_filter, limit=1))
