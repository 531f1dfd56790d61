"""What Dagster keeps of the past: enough, and no more."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.storage.event_log import SqliteEventLogStorage
from dagster._core.test_utils import create_run_for_test

from tableflow_assets.defs.build import build_definitions
from tableflow_assets.defs.maintenance.old_events import prune_events
from tableflow_assets.defs.maintenance.old_runs import (
    Ours,
    prune_runs,
    remove_files_left_behind,
)
from tableflow_assets.defs.maintenance.prune import JOB_NAME
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.settings.blocks import Dagster
from tableflow_assets.settings.settings import Settings

WINDOWS = dg.StaticPartitionsDefinition(["monday", "tuesday"])
KEY, TOPIC = dg.AssetKey("payments"), dg.AssetKey("topic")
CHECK = dg.AssetCheckKey(KEY, "exact")
OURS = Ours(("new_offsets",), (KEY, TOPIC), (CHECK,))
LIMIT = 100


@dg.asset(key=KEY, partitions_def=WINDOWS)
def payments(context: dg.AssetExecutionContext) -> None:
    context.log.info("a line for the log")


@dg.asset_check(asset=KEY, name="exact")
def exact() -> dg.AssetCheckResult:
    return dg.AssetCheckResult(passed=True)


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """With databases in a folder, as the embedded stack has it."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as local:
        yield local


def run(instance: dg.DagsterInstance, window: str, launched_by: str | None = "new_offsets") -> str:
    tags = {RUN_TAG: launched_by} if launched_by else {}
    assets: list[Any] = [payments, exact]
    return dg.materialize(assets, instance=instance, partition_key=window, tags=tags).run_id


def runs_of(instance: dg.DagsterInstance) -> set[str]:
    return {run.run_id for run in instance.get_runs()}


def files_of(instance: dg.DagsterInstance, run_id: str) -> list[Path]:
    return [path for path in Path(instance.root_directory).rglob(f"{run_id}*") if path.exists()]


def prune(instance: dg.DagsterInstance, at_most: int = LIMIT, limit: int = LIMIT) -> int:
    return prune_runs(instance, OURS, datetime.now(UTC), at_most, limit)


def test_an_old_run_goes_with_all_its_files_and_what_assets_need_stays(
    instance: dg.DagsterInstance,
) -> None:
    first = [run(instance, window) for window in ("monday", "tuesday", "monday")]
    by_hand = run(instance, "tuesday", launched_by=None)
    of_others = run(instance, "tuesday", launched_by="another_sensor")
    last = run(instance, "tuesday")
    assert len(files_of(instance, first[0])) >= 2  # its events, and its logs and values
    before = instance.get_materialized_partitions(KEY)

    assert prune(instance) == 2
    # The only run of Monday's latest rows stays, however old; so does what was not ours to remove.
    assert runs_of(instance) == {first[2], by_hand, of_others, last}
    assert [files_of(instance, run_id) for run_id in first[:2]] == [[], []]
    assert instance.get_materialized_partitions(KEY) == before == {"monday", "tuesday"}
    newest = instance.get_latest_materialization_event(KEY)
    assert newest is not None
    assert newest.run_id == last
    checks = instance.event_log_storage.get_latest_asset_check_execution_by_key([CHECK])
    assert checks[CHECK].run_id == last
    assert prune(instance) == 0


def without_events(instance: dg.DagsterInstance, status: dg.DagsterRunStatus) -> str:
    tags = {RUN_TAG: "new_offsets"}
    return create_run_for_test(instance, job_name="any", status=status, tags=tags).run_id


def test_too_many_go_however_young_the_oldest_first_and_so_many_at_a_time(
    instance: dg.DagsterInstance,
) -> None:
    runs = [without_events(instance, dg.DagsterRunStatus.FAILURE) for _ in range(5)]
    needed = run(instance, "monday")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    assert prune_runs(instance, OURS, yesterday, 5, LIMIT) == 0  # and the needed one on top
    assert prune_runs(instance, OURS, yesterday, 2, limit=2) == 2
    assert runs_of(instance) == {*runs[2:], needed}
    assert prune_runs(instance, OURS, yesterday, 2, limit=2) == 1
    assert runs_of(instance) == {*runs[3:], needed}


def test_a_run_under_way_stays(instance: dg.DagsterInstance) -> None:
    without_events(instance, dg.DagsterRunStatus.SUCCESS)
    under_way = without_events(instance, dg.DagsterRunStatus.STARTED)
    assert prune(instance) == 1
    assert runs_of(instance) == {under_way}


def test_the_job_is_in_our_definitions_unless_runs_stay_for_ever(
    instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    settings = Settings(state_dir=tmp_path)
    job = build_definitions(settings).resolve_job_def(JOB_NAME)
    old = run(instance, "monday")
    assert job.execute_in_process(instance=instance).success
    assert old in runs_of(instance)  # no week has passed
    for_ever = settings.model_copy(update={"dagster": Dagster(keep_runs=None)})
    definitions = build_definitions(for_ever)
    assert JOB_NAME not in [job.name for job in definitions.jobs or ()]
    assert JOB_NAME not in [schedule.job_name for schedule in definitions.schedules or ()]


def test_the_files_of_a_run_that_is_gone_are_found_later(instance: dg.DagsterInstance) -> None:
    lost = run(instance, "monday")
    instance.delete_run(lost)  # and here the process was killed
    tomorrow = datetime.now(UTC) + timedelta(days=2)
    assert remove_files_left_behind(instance, datetime.now(UTC)) == 0
    assert remove_files_left_behind(instance, tomorrow) == 1
    assert files_of(instance, lost) == []


def events_of(instance: dg.DagsterInstance) -> list[int]:
    storage = instance.event_log_storage
    assert isinstance(storage, SqliteEventLogStorage)
    counts = []
    for connect in (storage.index_connection, lambda: storage.run_connection("")):
        with connect() as connection:
            text = "SELECT count(*) FROM event_logs WHERE run_id = '' AND asset_key IS NOT NULL"
            counts.append(connection.exec_driver_sql(text).scalar_one())
    with storage.index_connection() as connection:
        text = "SELECT count(*) FROM asset_check_executions"
        counts.append(connection.exec_driver_sql(text).scalar_one())
    return counts


def test_of_events_without_a_run_the_newest_of_their_kind_stay(
    instance: dg.DagsterInstance,
) -> None:
    for number in range(5):
        observation = dg.AssetObservation(TOPIC, metadata={"end": number})
        instance.report_runless_asset_event(observation)
        result = dg.AssetCheckEvaluation(KEY, "exact", passed=number == 4)
        instance.report_runless_asset_event(result)
    instance.report_runless_asset_event(dg.AssetObservation("of others"))
    assert events_of(instance) == [6, 6, 5]
    hour = timedelta(hours=1)
    assert prune_events(instance, OURS.assets, datetime.now(UTC) - hour) == 0
    assert prune_events(instance, OURS.assets, datetime.now(UTC) + hour) > 0
    assert events_of(instance) == [2, 2, 1]
    (newest,) = instance.fetch_observations(TOPIC, limit=9).records
    assert newest.asset_observation is not None
    assert newest.asset_observation.metadata["end"].value == 4
    checks = instance.event_log_storage.get_latest_asset_check_execution_by_key([CHECK])
    assert checks[CHECK].event is not None
