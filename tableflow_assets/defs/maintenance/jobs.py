"""Maintenance in Dagster: two jobs, each for any number of tables."""

from collections.abc import Sequence

import dagster as dg

from tableflow_assets.defs.maintenance.ops import choose_op, work_op
from tableflow_assets.defs.maintenance.steps import COMPACT_ONLY, STEPS
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

JOB_NAME = "maintain"
# A worker that was killed never reports it, and would hold the table's pool until this limit.
LONGEST_RUN_SECONDS = 3600
TAGS = {
    "tableflow/maintenance": "true",  # lets an instance limit how many run at a time
    "dagster/priority": "-1",  # in the queue, runs with new records go first
    "dagster/max_runtime": str(LONGEST_RUN_SECONDS),
}


def maintenance_jobs(tables: Sequence[ManagedTable], settings: Settings) -> list[dg.JobDefinition]:
    choose = choose_op(tables)
    maintain_tables = work_op("maintain_tables", tables, settings, STEPS)
    compact_tables = work_op("compact_tables", tables, settings, COMPACT_ONLY)

    @dg.job(
        name=JOB_NAME,
        description="Does what the tables need: retention, compaction, expiry, removals, Delta log.",
        tags=TAGS,
        executor_def=dg.in_process_executor,
    )
    def maintain() -> None:
        maintain_tables(choose())

    @dg.job(
        name="compact",
        description="Compacts the tables' files, and does nothing else.",
        tags=TAGS,
        executor_def=dg.in_process_executor,
    )
    def compact() -> None:
        compact_tables(choose())

    return [maintain, compact]
