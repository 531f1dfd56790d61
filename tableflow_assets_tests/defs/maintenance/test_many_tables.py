"""Many tables in one run: who is sent, who goes first, who never holds up the others."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets.defs.maintenance import rounds
from tableflow_assets.defs.maintenance import sensor as sensors
from tableflow_assets.defs.maintenance.agenda import Agenda, Entry
from tableflow_assets.defs.maintenance.progress import left_by
from tableflow_assets.defs.maintenance.sensor import (
    RUN_SECONDS,
    SENSOR_NAME,
    maintenance_sensor,
)
from tableflow_assets.defs.names import table_pool
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.operate.maintenance.slots import Slot
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.suspension import PROPERTY as SUSPENDED
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    duplicate_rows,
    leave_a_run,
    settings_on,
)
from tableflow_assets_tests.defs.maintenance.test_jobs import (
    done,
    instance_in,
    maintain,
    new_topic,
    outcomes,
    problems,
)

HOUR = 3600.0
FINISHED = dg.DagsterRunStatus.SUCCESS


class Tables:
    """Of four tables, from the one in most need to one that needs nothing; the third is damaged."""

    def __init__(self, world: DagsterWorld, names: Sequence[str]) -> None:
        self.world = world
        self.much, self.little, self.broken, self.well = self.names = list(names)

    def tick(self, agenda: Agenda, **resources: object) -> tuple[SensorExecutionData, Agenda]:
        known = self.world.definitions.get_repository_def().get_top_level_resources()
        needed = {name: known[name] for name in ("tableflow_catalog", "tableflow_s3")}
        with dg.build_sensor_context(
            instance=self.world.instance,
            definitions=self.world.definitions,
            resources=needed | resources,
            cursor=agenda.to_cursor(),
        ) as context:
            said = self.world.definitions.resolve_sensor_def(SENSOR_NAME).evaluate_tick(context)
        return said, Agenda.from_cursor(said.cursor)

    def all_due(self) -> Agenda:
        """Each has waited for others long enough."""
        slot = Slot(time.time() - HOUR, HOUR)
        return Agenda(at=time.time(), due=dict.fromkeys(reversed(self.names), slot))

    def sent(self, *names: str) -> Agenda:
        entry = Entry(since=0, launch_by=0, urgency=5)
        return Agenda(at=time.time(), sent=dict.fromkeys(names, entry), sent_at=time.time() - HOUR)


def requested(said: SensorExecutionData) -> list[str]:
    return [
        name
        for request in said.run_requests or ()
        for name in request.run_config["ops"]["choose"]["config"]["topics"]
    ]


@pytest.fixture(scope="module")
def tables(
    stack: Stack, session_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Tables]:
    names = [new_topic(session_settings).name for _ in range(4)]
    topics = {name: TopicOptions(formats=("iceberg",)) for name in names}
    state = tmp_path_factory.mktemp("many")
    world = DagsterWorld(settings_on(stack.state.folder, state, topics=topics), day(9).date())
    with instance_in(tmp_path_factory.mktemp("instance")) as world.instance:
        made = Tables(world, names)
        assert world.launch(*names).success
        for name, commits in [(made.much, 4), (made.little, 2), (made.broken, 1)]:
            for _ in range(commits):
                duplicate_rows(world.table(name))
        broken = world.table(made.broken)
        snapshot = broken.current_snapshot()
        assert snapshot is not None
        broken.io.delete(snapshot.manifest_list)
        yield made


# ---- the sensor ----


def test_one_run_is_asked_for_with_those_in_need_and_those_in_most_need_first(
    tables: Tables,
) -> None:
    said, agenda = tables.tick(tables.all_due())
    (request,) = said.run_requests or ()
    assert request.run_config["ops"]["choose"]["config"] == {
        "topics": [tables.much, tables.little],
        "limit_seconds": RUN_SECONDS,
    }
    assert request.tags[RUN_TAG] == SENSOR_NAME
    assert (list(agenda.sent), agenda.due) == ([tables.much, tables.little], {})


def test_a_tick_says_why_a_table_is_not_sent(tables: Tables) -> None:
    agenda = tables.all_due()
    for name in (tables.much, tables.little):
        del agenda.due[name]
    said, _ = tables.tick(agenda)
    assert requested(said) == []
    assert f"{tables.well}: Nothing is needed" in str(said.skip_message)
    assert f"{tables.broken}: " in str(said.skip_message)


def test_a_suspended_table_is_not_sent(tables: Tables) -> None:
    with tables.world.table(tables.much).transaction() as transaction:
        transaction.set_properties({SUSPENDED: "by hand"})
    try:
        assert requested(tables.tick(tables.all_due())[0]) == [tables.little]
    finally:
        with tables.world.table(tables.much).transaction() as transaction:
            transaction.remove_properties(SUSPENDED)


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTED])
def test_there_is_one_run_at_a_time_and_what_comes_meanwhile_waits(
    tables: Tables, status: dg.DagsterRunStatus
) -> None:
    run = leave_a_run(tables.world.instance, status, SENSOR_NAME)
    try:
        said, agenda = tables.tick(tables.all_due())
        assert requested(said) == []
        assert set(agenda.needy) == {tables.much, tables.little}
        assert f"waiting for the next run: {tables.little}, {tables.much}" in str(said.skip_message)
    finally:
        tables.world.instance.delete_run(run)
    assert requested(tables.tick(agenda)[0]) == [tables.much, tables.little]


@pytest.mark.parametrize("is_recorded", [True, False])
def test_what_the_last_run_has_left_is_sent_again(tables: Tables, is_recorded: bool) -> None:
    run = leave_a_run(tables.world.instance, FINISHED, SENSOR_NAME)
    if is_recorded:
        rounds.note_left(tables.world.instance, run, [tables.little, "a table that is gone"])
    try:
        said, agenda = tables.tick(tables.sent(tables.much, tables.little))
        left = {tables.little} if is_recorded else {tables.much, tables.little}
        assert agenda.fruitless == (not is_recorded)
        assert set(requested(said)) == left
    finally:
        tables.world.instance.delete_run(run)


def test_a_run_that_was_never_created_is_not_taken_for_the_one_before(tables: Tables) -> None:
    run = leave_a_run(tables.world.instance, FINISHED, SENSOR_NAME)
    rounds.note_left(tables.world.instance, run, [])
    agenda = tables.sent(tables.much)
    agenda.sent_at = time.time() + 1
    try:
        assert list(tables.tick(agenda)[1].needy) == [tables.much]
    finally:
        tables.world.instance.delete_run(run)


def test_a_catalog_that_is_away_is_named_and_nothing_is_forgotten(
    tables: Tables, closed_port: int
) -> None:
    away = IcebergCatalogResource(
        namespace="tableflow",
        catalog={"uri": f"http://127.0.0.1:{closed_port}"},
        s3=tables.world.definitions.resources["tableflow_s3"],
    )
    said, agenda = tables.tick(tables.all_due(), tableflow_catalog=away)
    assert f"127.0.0.1:{closed_port} does not answer" in str(said.skip_message)
    assert set(agenda.due) == set(tables.names)


def test_a_tick_looks_at_few_of_a_thousand_tables(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are found not to exist, in a millisecond each: so it gets less time than otherwise."""
    monkeypatch.setattr(sensors, "LOOK_SECONDS", 0.1)
    many = [ManagedTable(name=f"topic-{number}", maintenance="0 * * * *") for number in range(1000)]
    sensor = maintenance_sensor(many, tables.world.settings)
    known = tables.world.definitions.get_repository_def().get_top_level_resources()
    needed = {name: known[name] for name in ("tableflow_catalog", "tableflow_s3")}
    with dg.build_sensor_context(
        instance=tables.world.instance,
        resources=needed,
        cursor=Agenda(at=time.time() - 2 * HOUR).to_cursor(),
    ) as context:
        used = time.process_time()
        agenda = Agenda.from_cursor(sensor.evaluate_tick(context).cursor)
        assert time.process_time() - used < 1
    assert 0 < len(agenda.due) < 1000
    assert next(iter(agenda.due)) not in agenda.needy


# ---- the run ----


def run_of(tables: Tables, *names: str, **config: Any) -> Any:
    return maintain(tables.world, topics=list(names), **config)


def left(tables: Tables, run: Any) -> list[str] | None:
    return left_by(tables.world.instance, run.run_id)


def test_a_run_whose_time_is_up_leaves_the_rest_to_the_next(tables: Tables) -> None:
    run = run_of(tables, tables.much, tables.little, limit_seconds=0)
    assert run.success
    assert outcomes(run) == {tables.much: {}, tables.little: {}}
    assert left(tables, run) == [tables.much, tables.little]


def test_a_process_that_ends_leaves_those_that_it_did_not_begin_with(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(rounds, "health", end)
    job = tables.world.definitions.resolve_job_def("maintain")
    config = {"topics": [tables.much, tables.little, tables.well], "limit_seconds": 60}
    run_id = "00000000-0000-4000-8000-000000000001"
    with pytest.raises(BaseException):  # noqa: B017  (whatever Dagster makes of it)
        job.execute_in_process(
            instance=tables.world.instance,
            run_config={"ops": {"choose": {"config": config}}},
            run_id=run_id,
        )
    assert left_by(tables.world.instance, run_id) == [tables.little, tables.well]


def test_a_table_that_is_being_written_comes_later_and_the_others_go_on(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "POOL_SECONDS", 0.3)
    store = tables.world.instance.event_log_storage
    pool = table_pool(tables.world.topic(tables.much))
    store.initialize_concurrency_limit_to_default(pool)
    assert store.claim_concurrency_slot(pool, "the staying run", "turn").is_claimed
    try:
        run = run_of(tables, tables.much, tables.little, limit_seconds=300)
    finally:
        store.free_concurrency_slot_for_step("the staying run", "turn")
    assert run.success
    assert done(run, tables.much) == {"compact": "later"}
    assert done(run, tables.little) == {"compact": "done"}
    assert left(tables, run) == [tables.much]
    assert store.get_concurrency_info(pool).pending_step_count == 0


def test_a_broken_table_stops_no_other(tables: Tables) -> None:
    run = run_of(tables, tables.broken, tables.much, tables.well, limit_seconds=300)
    assert not run.success
    assert f"{tables.broken}: " in problems(run)
    assert tables.much not in problems(run)
    assert done(run, tables.much) == {"compact": "done"}
    assert done(run, tables.well) == {}
    assert left(tables, run) == []
