"""What can be launched as a whole, and what runs by the clock."""

from __future__ import annotations

import dagster as dg

VERIFY_CRON = "*/5 * * * *"


def verify_job() -> dg.JobDefinition:
    """All checks: every table against its log."""
    return dg.define_asset_job(  # type: ignore[return-value]
        "verify",
        selection=dg.AssetSelection.all_asset_checks(),
        description="Compares every table with its topic, offset by offset.",
    )


def verify_schedule() -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        job_name="verify",
        name="verify_every_five_minutes",
        cron_schedule=VERIFY_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
