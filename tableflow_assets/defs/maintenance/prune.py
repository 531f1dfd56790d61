"""The job that keeps Dagster's own folder from growing for ever, and its hourly schedule."""

from datetime import UTC, datetime, timedelta

import dagster as dg

from tableflow_assets.defs import every_hour
from tableflow_assets.defs.maintenance.jobs import TAGS
from tableflow_assets.defs.maintenance.old_events import prune_events
from tableflow_assets.defs.maintenance.old_runs import Ours, prune_runs, remove_files_left_behind
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.resources import IO_MANAGER
from tableflow_assets.settings.settings import Settings

JOB_NAME = "prune_runs"
PRUNE_SCHEDULE_NAME = "prune_runs_every_hour"
# In a day more than a day brings, even with a run every eight seconds. Each takes some tenths of a second.
AT_ONCE = 500


def prune_jobs(ours: Ours, settings: Settings) -> list[dg.JobDefinition]:
    """None where the settings say that runs stay for ever."""
    keep_runs, max_runs = settings.dagster.keep_runs, settings.dagster.max_runs
    return [] if keep_runs is None else [_prune_job(ours, keep_runs, max_runs)]


def _prune_job(ours: Ours, keep_runs: timedelta, max_runs: int) -> dg.JobDefinition:
    @dg.op(out=dg.Out(dg.Nothing, io_manager_key=IO_MANAGER))
    def prune_old_runs(context: dg.OpExecutionContext) -> None:
        now = datetime.now(UTC)
        before = now - keep_runs
        runs = prune_runs(context.instance, ours, before, max_runs, AT_ONCE)
        events = prune_events(context.instance, ours.assets, before)
        strays = remove_files_left_behind(context.instance, now)
        context.log.info(f"removed {runs} runs, {events} other events, files of {strays} lost runs")
        context.add_output_metadata({"runs": runs, "events": events, "stray_files": strays})

    @dg.job(
        name=JOB_NAME,
        description="Removes Dagster's old runs, with their logs and files.",
        tags=TAGS,
        executor_def=dg.in_process_executor,
    )
    def prune() -> None:
        prune_old_runs()

    return prune


def prune_schedules(settings: Settings) -> list[dg.ScheduleDefinition]:
    if settings.dagster.keep_runs is None:
        return []
    schedule = dg.ScheduleDefinition(
        job_name=JOB_NAME,
        name=PRUNE_SCHEDULE_NAME,
        cron_schedule=every_hour.PRUNE_RUNS,
        execution_timezone="UTC",
        tags={RUN_TAG: PRUNE_SCHEDULE_NAME},
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
    return [schedule]
