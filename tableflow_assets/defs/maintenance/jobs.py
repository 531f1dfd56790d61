"""Maintenance in Dagster: two jobs for all tables, and one schedule per table."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.defs.maintenance.check import what_is_needed
from tableflow_assets.defs.maintenance.ops import MaintenanceOps
from tableflow_assets.defs.maintenance.steps import COMPACT_OP
from tableflow_assets.defs.our_runs import RUN_TAG, is_under_way
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.operate.maintenance.health import health
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.table.suspension import find_suspension

JOB_NAME = "maintain"
# A worker that was killed never reports it, and would hold the table's pool until this limit.
LONGEST_RUN_SECONDS = 3600
TAGS = {
    "tableflow/maintenance": "true",  # lets an instance limit how many run at a time
    "dagster/priority": "-1",  # in the queue, runs with new records go first
    "dagster/max_runtime": str(LONGEST_RUN_SECONDS),
}


def maintenance_jobs(topics: Sequence[ManagedTable], settings: Settings) -> list[dg.JobDefinition]:
    ops = MaintenanceOps(topics, settings)

    @dg.job(
        name=JOB_NAME,
        description="Does what the tables need: retention, compaction, expiry, removals, Delta log.",
        tags=TAGS,
        executor_def=dg.in_process_executor,
    )
    def maintain() -> None:
        def look_after(wanted: Any) -> None:
            needs = ops.look(wanted)
            for kind, step in ops.steps.items():
                _named(step)(getattr(needs, kind))

        ops.choose().map(look_after)

    @dg.job(
        name="compact",
        description="Compacts the tables' files, and does nothing else.",
        tags=TAGS,
        executor_def=dg.in_process_executor,
    )
    def compact() -> None:
        def look_after(wanted: Any) -> None:
            _named(ops.steps["compact"])(ops.look(wanted).compact)

        ops.choose().map(look_after)

    return [maintain, compact]


def _named(step: dg.OpDefinition) -> Any:
    """A job and an op cannot share a name, but a job and a step can."""
    return step.alias("compact") if step.name == COMPACT_OP else step


def maintenance_schedules(
    topics: Sequence[ManagedTable], settings: Settings
) -> Iterator[dg.ScheduleDefinition]:
    for topic in topics:
        if topic.maintenance is not None:
            yield _schedule(topic, settings)


def _schedule(topic: ManagedTable, settings: Settings) -> dg.ScheduleDefinition:
    name = f"{JOB_NAME}_{topic.table}"

    @dg.schedule(
        name=name,
        job_name=JOB_NAME,
        cron_schedule=str(topic.maintenance),
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Looks at the table of `{topic.name}`, and launches a run where it needs one.",
    )
    def maintain(
        context: dg.ScheduleEvaluationContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.RunRequest | dg.SkipReason:
        try:
            if reason := _why_not(context, name, topic, settings, tableflow_catalog):
                return dg.SkipReason(reason)
        except (TableflowError, OSError) as error:  # OSError: from the object store
            return dg.SkipReason(str(error))
        return dg.RunRequest(
            run_config={"ops": {"choose": {"config": {"topics": [topic.name]}}}},
            tags={RUN_TAG: name},
        )

    return maintain


def _why_not(
    context: dg.ScheduleEvaluationContext,
    name: str,
    topic: ManagedTable,
    settings: Settings,
    catalog: IcebergCatalogResource,
) -> str | None:
    """Why no run is launched now, or None if one is. The cheapest and most frequent answer comes first."""
    client = catalog.client()
    table_health = health(client, topic)
    if not table_health.needs:
        return what_is_needed(table_health)
    if suspension := find_suspension(client, topic, settings.state_dir):
        return str(suspension.to_error(topic))
    if is_under_way(context.instance, name):
        return "The last run is still under way."
    return None
