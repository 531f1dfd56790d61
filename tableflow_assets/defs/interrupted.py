"""`python -m tableflow_assets.defs.interrupted`: close the runs that a stopped stack left open.

A run that was killed together with its code server never reports its end. To Dagster it is still running:
it keeps its slot in the table's pool and holds the sensor back. Run this only when no run can be alive.
"""

from __future__ import annotations

import dagster as dg

from tableflow_assets.defs.our_runs import UNFINISHED


def close_interrupted_runs(instance: dg.DagsterInstance) -> int:
    """Mark the runs that were under way as failed; queued runs start by themselves."""
    begun = [status for status in UNFINISHED if status != dg.DagsterRunStatus.QUEUED]
    runs = instance.get_runs(dg.RunsFilter(statuses=begun))
    for run in runs:
        instance.report_run_failed(run, "The stack was stopped. The next run goes on from there.")
        instance.event_log_storage.free_concurrency_slots_for_run(run.run_id)
    return len(runs)


if __name__ == "__main__":
    with dg.DagsterInstance.get() as this_instance:
        close_interrupted_runs(this_instance)
