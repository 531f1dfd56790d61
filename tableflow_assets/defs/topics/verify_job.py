"""The job that verifies all tables, and its hourly schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

from tableflow_assets.defs import every_hour
from tableflow_assets.defs.our_runs import RUN_TAG

SCHEDULE_NAME = "verify_every_hour"


def verify_job(
    checks: Sequence[dg.AssetCheckKey], comparisons: Sequence[dg.AssetChecksDefinition]
) -> Any:
    """``checks``: all those of the topics' tables. ``comparisons``: those that compare the whole log here."""
    whole_log = {"config": {"whole_log": True}}
    return dg.define_asset_job(
        "verify",
        selection=dg.AssetSelection.checks(*checks),
        description="Compares every table with its topic, offset by offset.",
        config={"ops": {check.node_def.name: whole_log for check in comparisons}},
        executor_def=dg.in_process_executor,
    )


def verify_schedule() -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        job_name="verify",
        name=SCHEDULE_NAME,
        cron_schedule=every_hour.VERIFY,
        tags={RUN_TAG: SCHEDULE_NAME},
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
