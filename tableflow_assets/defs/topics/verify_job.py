"""What can be launched as a whole, and what runs by the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dagster as dg

VERIFY_CRON = "0 * * * *"


def verify_job(
    checks: Sequence[dg.AssetChecksDefinition], except_for: Sequence[dg.AssetKey] = ()
) -> Any:
    """All checks: every table against its whole log. ``except_for``: tables without a log."""
    selection: dg.AssetSelection = dg.AssetSelection.all_asset_checks()
    if except_for:
        selection -= dg.AssetSelection.checks_for_assets(*except_for)
    whole_log = {"config": {"whole_log": True}}
    return dg.define_asset_job(
        "verify",
        selection=selection,
        description="Compares every table with its topic, offset by offset.",
        config={"ops": {check.node_def.name: whole_log for check in checks}},
    )


def verify_schedule() -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        job_name="verify",
        name="verify_every_hour",
        cron_schedule=VERIFY_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
