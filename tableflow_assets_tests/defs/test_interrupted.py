"""What a stopped stack left open in Dagster."""

from __future__ import annotations

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from tableflow_assets.defs.interrupted import close_interrupted_runs


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.FAILURE),
        (dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.FAILURE),
        (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.SUCCESS),
    ],
)
def test_runs_that_were_under_way_are_closed(
    before: dg.DagsterRunStatus, after: dg.DagsterRunStatus
) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        run = create_run_for_test(instance, job_name="any", status=before)
        closed = close_interrupted_runs(instance)
        found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert found.status == after
    assert closed == (before != after)
