"""The runs that our sensors and schedules launch: by whom each was, and whether one is still under way."""

from __future__ import annotations

import dagster as dg

RUN_TAG = "tableflow/launched_by"
UNFINISHED = (
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
)


def is_under_way(
    instance: dg.DagsterInstance, launched_by: str, tags: dict[str, str] | None = None
) -> bool:
    """Whether a run of this launcher, and with these tags, is unfinished."""
    asked = {RUN_TAG: launched_by} | (tags or {})
    unfinished = dg.RunsFilter(tags=asked, statuses=list(UNFINISHED))
    return bool(instance.get_runs(unfinished, limit=1))
