"""Maintenance in Dagster: what is needed, what a run does and says, and whom it waits for."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.defs.maintenance.check import maintenance_evaluation
from tableflow_assets.defs.maintenance.steps import STEPS, MaintenanceRequest, Step
from tableflow_assets.defs.metadata import maintenance_metadata
from tableflow_assets.defs.names import table_pool
from tableflow_assets.defs.pools import in_pool
from tableflow_assets.operate.maintenance.health import SMALL_FILES, Health, Need
from tableflow_assets.operate.maintenance.maintain import ORDER
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.suspension import PROPERTY as SUSPENDED
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    day_key,
    duplicate_rows,
    milliseconds,
    payments,
    rows_of,
    settings_on,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

YESTERDAY = day_key(1)


def wear_out(world: DagsterWorld, name: str) -> None:
    """Many small files in a window that is over; and their writer died before it mirrored them."""
    for _ in range(SMALL_FILES):
        duplicate_rows(world.table(name))


def maintain(world: DagsterWorld, job: str = "maintain", **config: Any) -> ExecuteInProcessResult:
    chosen = {"ops": {"choose": {"config": config}}}
    return world.run_job(job, run_config=chosen, raise_on_error=False)


def outcomes(run: ExecuteInProcessResult) -> dict[str, dict[str, str]]:
    """By the table: what the run shows of each step that was not skipped."""
    (shown,) = (
        one.step_output_data.metadata
        if one.is_successful_output
        else one.step_failure_data.user_failure_data.metadata
        for one in run.all_events
        if (one.is_successful_output or one.is_step_failure)
        and str(one.step_key).endswith("_tables")
    )
    kinds = [step.kind for step in STEPS]
    return {
        str(row.data["table"]): {
            kind: str(row.data[kind])
            for kind in kinds
            if row.data.get(kind, "") not in ("", "not needed")
        }
        for row in shown["tables"].records
    }


def done(run: ExecuteInProcessResult, name: str) -> dict[str, str]:
    """Of one table, without the seconds."""
    return {kind: said.partition(" in ")[0] for kind, said in outcomes(run)[name].items()}


def problems(run: ExecuteInProcessResult) -> str:
    (failed,) = (event for event in run.all_events if event.is_step_failure)
    return str(failed.event_specific_data.error_display_string)


def observations(world: DagsterWorld, run: ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """By their step, as they are in Dagster's storage."""
    records = world.instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_OBSERVATION)
    found = [one.dagster_event.asset_observation_data.asset_observation for one in records]
    values = [{name: value.value for name, value in one.metadata.items()} for one in found]
    return {one["step"]: one for one in values}


@dataclass
class Worn:
    """A table that needs two things: its files compacted, and its Delta log brought up."""

    world: DagsterWorld
    name: str


def new_topic(settings: Settings) -> KafkaTopic:
    kafka, registry = connections.kafka_address(settings), connections.registry_address(settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    topic.send(PAYMENT, payments(3), timestamp=milliseconds(day(1)))
    topic.send(PAYMENT, payments(1), timestamp=milliseconds(day(0)))
    return topic


@pytest.fixture(scope="module")
def worn(
    stack: Stack, session_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worn]:
    """Made once; the tests that mend it come last."""
    topic = new_topic(session_settings)
    state = tmp_path_factory.mktemp("worn")
    settings = settings_on(stack.state.folder, state, topics={topic.name: TopicOptions()})
    world = DagsterWorld(settings, day(9).date())
    with instance_in(tmp_path_factory.mktemp("instance")) as world.instance:
        assert world.launch(topic.name).success
        wear_out(world, topic.name)
        yield Worn(world, topic.name)


def instance_in(folder: Path) -> dg.DagsterInstance:
    """As the stack's: schedules and pools want one that remembers."""
    limits = {"concurrency": {"pools": {"default_limit": 1, "granularity": "op"}}}
    return dg.DagsterInstance.local_temp(str(folder), overrides=limits)


def test_the_steps_are_the_librarys_in_the_librarys_order() -> None:
    assert tuple(step.kind for step in STEPS) == ORDER


# ---- when it is needed ----


def test_the_check_warns_with_what_is_needed_and_why(worn: Worn) -> None:
    said = worn.world.run_check(worn.name, "maintenance")
    assert (said.passed, said.severity) == (False, dg.AssetCheckSeverity.WARN)
    needs = {one.data["needed"]: one.data["why"] for one in said.metadata["needs"].records}
    assert set(needs) == {"compact", "mirror"}
    assert YESTERDAY in needs["compact"]
    assert YESTERDAY in str(said.description)
    assert said.metadata["small_files"].value > SMALL_FILES
    assert {"files", "snapshots", "manifests", "dead_rows"} <= said.metadata.keys()


# ---- what a run does ----


def test_a_dry_run_says_what_would_be_done_and_changes_nothing(worn: Worn) -> None:
    before = worn.world.table(worn.name).metadata
    run = maintain(worn.world, dry_run=True)
    assert run.success
    assert done(run, worn.name) == {"mirror": "would be done", "compact": "would be done"}
    assert observations(worn.world, run) == {}
    assert worn.world.table(worn.name).metadata == before


def test_a_step_that_fails_stops_no_other(worn: Worn) -> None:
    run = maintain(worn.world, topics=[worn.name], strategy="nonsense")
    assert not run.success
    assert done(run, worn.name) == {"mirror": "done", "compact": "failed"}
    assert observations(worn.world, run)["mirror"]["states_behind"] == 0


def test_an_unknown_topic_is_refused_with_those_that_there_are(worn: Worn) -> None:
    run = maintain(worn.world, topics=["nobody"])
    assert "no topic 'nobody'" in problems(run)
    assert worn.name in problems(run)


def test_a_suspended_topic_is_left_alone(worn: Worn) -> None:
    table = worn.world.table(worn.name)
    with table.transaction() as transaction:
        transaction.set_properties({SUSPENDED: "by hand"})
    try:
        run = maintain(worn.world)
        assert not run.success
        assert done(run, worn.name) == {}
        assert "is suspended: by hand" in problems(run)
    finally:
        with worn.world.table(worn.name).transaction() as transaction:
            transaction.remove_properties(SUSPENDED)


def test_a_run_does_what_is_needed_and_skips_the_rest(worn: Worn) -> None:
    rows = rows_of(worn.world.table(worn.name))
    run = maintain(worn.world, topics=[worn.name])
    assert run.success
    assert done(run, worn.name) == {"compact": "done"}
    compacted = observations(worn.world, run)["compact"]
    assert compacted["files_before"] > SMALL_FILES
    assert compacted["files_after"] == 1
    assert [one.data["window"] for one in compacted["windows"].records] == [YESTERDAY]
    assert rows_of(worn.world.table(worn.name)) == rows


def test_a_run_says_by_the_check_that_nothing_is_needed_any_more(worn: Worn) -> None:
    check = dg.AssetCheckKey(worn.world.key(worn.name), "maintenance")
    store = worn.world.instance.event_log_storage
    (last,) = store.get_asset_check_execution_history(check, limit=1)
    assert last.event.dagster_event.asset_check_evaluation_data.passed


def test_a_window_can_be_compacted_that_does_not_need_it(worn: Worn) -> None:
    duplicate_rows(
        worn.world.table(worn.name), f"_kafka.timestamp < '{day(0):%Y-%m-%d}T00:00:00+00:00'"
    )
    run = maintain(worn.world, "compact", topics=[worn.name], windows=[YESTERDAY])
    assert run.success
    assert observations(worn.world, run)["compact"]["files_after"] == 1


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.kind)
def test_what_a_step_reports_can_be_shown(worn: Worn, step: Step) -> None:
    """Also of one that finds nothing to do."""
    # Not closed: a process has one Spark session, which other tests go on using.
    pipeline = Tableflow(worn.world.settings).pipeline(worn.world.topic(worn.name))
    done = step.work(pipeline, MaintenanceRequest(worn.name), "a run")
    shown = maintenance_metadata(done)
    dg.AssetObservation(asset_key="table", metadata=shown)
    numbers = {
        "mirror": "delta_version",
        "retention": "rows",
        "compact": "files_after",
        "manifests": "after",
        "expire": "snapshots",
        "metadata": "files",
        "orphans": "removed",
    }
    assert isinstance(shown[numbers[step.kind]], int)


def test_a_long_list_is_cut_with_its_length_told() -> None:
    files = [{"file": f"data/{number}.parquet", "bytes": 1} for number in range(250)]
    shown = maintenance_metadata({"files": files, "moment": day(0), "none": None, "empty": ()})
    assert len(shown["files"].records) == 100
    assert shown["files_in_all"] == 250
    assert shown.keys() == {"files", "files_in_all", "moment"}


def test_a_topic_without_a_table_needs_nothing(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    world = world_of(kafka_topic.name)
    assert world.run_check(kafka_topic.name, "maintenance").passed
    run = maintain(world)
    assert (run.success, done(run, kafka_topic.name)) == (True, {})


# ---- whom it waits for ----

POOL = "tableflow_payments"


@dg.op
def work(context: dg.OpExecutionContext) -> None:
    with in_pool(context, POOL):
        held = context.instance.event_log_storage.get_concurrency_info(POOL)
        context.log.info(f"slots held: {held.active_slot_count}")


@dg.job(executor_def=dg.in_process_executor)
def one_step() -> None:
    work()


def test_a_step_waits_until_the_run_that_holds_the_tables_pool_is_done(tmp_path: Path) -> None:
    with instance_in(tmp_path) as instance:
        store = instance.event_log_storage
        store.initialize_concurrency_limit_to_default(POOL)
        assert store.claim_concurrency_slot(POOL, "a run of the table", "materialize").is_claimed
        done: list[bool] = []
        waiting = threading.Thread(
            target=lambda: done.append(one_step.execute_in_process(instance=instance).success)
        )
        waiting.start()
        time.sleep(1)
        assert not done
        store.free_concurrency_slot_for_step("a run of the table", "materialize")
        waiting.join(timeout=120)  # a busy machine, and Dagster asks again less and less often
        assert done == [True]
        assert store.get_concurrency_info(POOL).active_slot_count == 0


def test_the_runs_of_a_table_and_its_maintenance_have_one_pool(worn: Worn) -> None:
    asset = worn.world.definitions.get_assets_def(worn.world.key(worn.name))
    pools = {op.pool for op in asset.node_def.iterate_op_defs()}
    assert pools == {None, table_pool(worn.world.topic(worn.name))}


def test_a_long_reason_is_cut_and_not_lost() -> None:
    found = Health("payments", needs=(Need("compact", "many windows " * 100),))
    said = maintenance_evaluation(dg.AssetKey("payments"), found)
    assert len(str(said.description)) <= 300
    assert said.metadata["needs"].records[0].data["why"] == "many windows " * 100
