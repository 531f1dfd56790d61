"""A suspended topic in Dagster: no runs, one failed check, and it goes on by itself once resumed."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData
from dagster._serdes import deserialize_value, serialize_value
from pyiceberg.catalog import Catalog

from tableflow_assets.base.errors import DataLoss, Suspended
from tableflow_assets.defs.topics.look import CURRENT_SECONDS, SUSPENDED_SECONDS
from tableflow_assets.table.suspension import PROPERTY, clear, suspend, suspension_of
from tableflow_assets_tests.defs.conftest import Clock, MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    append_as_a_stranger,
    evaluation,
    first_named,
    payments,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

WITH_NOTE: dict[str, Any] = {
    **PAYMENT,
    "fields": [*PAYMENT["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}
WITH_TEXT: dict[str, Any] = {
    **PAYMENT,
    "fields": [{"name": "id", "type": "int"}, {"name": "amount", "type": "string"}],
}


def evaluations(tick: SensorExecutionData) -> list[dg.AssetCheckEvaluation]:
    return [event for event in tick.asset_events if isinstance(event, dg.AssetCheckEvaluation)]


@pytest.fixture
def world(world_of: MakeWorld, kafka_topic: KafkaTopic) -> DagsterWorld:
    """One topic, with three records in its table."""
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    return world


def suspend_topic(world: DagsterWorld, topic: KafkaTopic) -> None:
    """As a run does; with records in the log that are not in the table."""
    topic.send(PAYMENT, payments(2), partition=0)
    suspend(world.catalog, world.topic(topic.name), DataLoss("5 offsets expired."))


class CountedLoads:
    """How often tables were loaded from the catalog."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, catalog: Catalog) -> None:
        self.count = 0
        load = type(catalog).load_table

        def counted(*arguments: Any) -> Any:
            self.count += 1
            return load(*arguments)

        monkeypatch.setattr(type(catalog), "load_table", counted)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, world: DagsterWorld) -> CountedLoads:
    return CountedLoads(monkeypatch, world.catalog.iceberg)


# ---- the sensor ----


def test_a_suspended_topic_gets_no_run_and_the_tick_says_why(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    suspend_topic(world, kafka_topic)
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    assert f"{kafka_topic.name} is suspended: 5 offsets expired." in tick.skip_message
    assert f"tableflow resume {kafka_topic.name} --accept-loss" in tick.skip_message
    assert "waiting before trying again" not in tick.skip_message


def test_a_suspension_is_reported_once_as_a_failed_check(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    before = world.look_for_offsets()
    suspend_topic(world, kafka_topic)
    first = world.look_for_offsets(before.cursor)
    clock.now += SUSPENDED_SECONDS + 1
    second = world.look_for_offsets(first.cursor)
    assert evaluations(second) == []
    assert "is suspended" in second.skip_message
    (found,) = evaluations(first)
    assert (found.asset_key, found.check_name) == (world.key(kafka_topic.name), "not_suspended")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    suspension = suspension_of(world.table(kafka_topic.name), world.topic(kafka_topic.name))
    assert suspension is not None
    about = {name: value.value for name, value in found.metadata.items()}
    assert about == {
        "reason": suspension.reason,
        "since": suspension.since,
        "resolve": f"`{suspension.resolve}`",
    }


def test_a_topic_that_goes_on_is_reported_once_as_a_passed_check(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    first = world.look_for_offsets()
    (found,) = evaluations(first)
    assert (found.asset_key, found.passed) == (world.key(kafka_topic.name), True)
    kafka_topic.send(PAYMENT, payments(1))
    second = world.look_for_offsets(first.cursor)
    assert evaluations(second) == []
    world.launch(kafka_topic.name)
    assert evaluations(world.look_for_offsets(second.cursor)) == []


def test_what_the_sensor_reports_is_the_checks_state_in_dagster(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    """As the daemon does with a tick's events, which come to it as text from another process."""
    suspend_topic(world, kafka_topic)
    tick = deserialize_value(serialize_value(world.look_for_offsets()), SensorExecutionData)
    for event in evaluations(tick):
        world.instance.report_runless_asset_event(event)
    key = dg.AssetCheckKey(world.key(kafka_topic.name), "not_suspended")
    (record,) = world.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    assert record.status.value == "FAILED"


def test_a_resumed_topic_is_reported_once_and_taken_up_again_at_once(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    suspend_topic(world, kafka_topic)
    suspended = world.look_for_offsets()
    clear(world.catalog, world.topic(kafka_topic.name))
    clock.now += SUSPENDED_SECONDS
    resumed = world.look_for_offsets(suspended.cursor)
    (found,) = evaluations(resumed)
    assert (found.check_name, found.passed) == ("not_suspended", True)
    assert first_named(resumed) == [kafka_topic.name]
    world.launch(kafka_topic.name)
    current = world.look_for_offsets(resumed.cursor)
    assert (first_named(current), evaluations(current)) == ([], [])


def test_other_topics_are_launched_while_one_is_suspended(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    for topic in (kafka_topic, other_topic):
        topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name, other_topic.name)
    world.launch(kafka_topic.name)
    suspend_topic(world, kafka_topic)
    assert first_named(world.look_for_offsets()) == [other_topic.name]


def test_a_lost_cursor_reports_a_suspension_again_and_launches_nothing(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    suspend_topic(world, kafka_topic)
    world.look_for_offsets()
    tick = world.look_for_offsets(None)
    assert first_named(tick) == []
    assert [found.passed for found in evaluations(tick)] == [False]


def test_a_run_that_suspends_its_topic_is_not_repeated(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    kafka_topic.send(PAYMENT, payments(4), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=5)
    first = world.look_for_offsets()
    assert first_named(first) == [kafka_topic.name]
    run = world.launch(kafka_topic.name, raise_on_error=False)
    assert not run.success
    clock.now += 600
    second = world.look_for_offsets(first.cursor)
    assert first_named(second) == []
    assert [found.passed for found in evaluations(second)] == [False]


# ---- what nobody has run into yet ----


def test_a_table_with_a_broken_ledger_is_suspended_without_a_run(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    append_as_a_stranger(world.table(kafka_topic.name))
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    (found,) = evaluations(tick)
    assert "not written by Tableflow Assets" in found.description
    assert PROPERTY in world.table(kafka_topic.name).properties


def test_a_topic_that_was_created_again_is_noticed_though_it_has_fewer_records(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    (found,) = evaluations(tick)
    assert "created again" in found.description
    assert f"tableflow rebase {kafka_topic.name}" in found.description


def test_a_topic_that_was_created_again_is_noticed_though_it_has_as_many_records(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    current = world.look_for_offsets()
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    clock.now += CURRENT_SECONDS + 1
    later = world.look_for_offsets(current.cursor)
    assert (first_named(later), [found.passed for found in evaluations(later)]) == ([], [False])


def test_a_dropped_table_is_reported_once_and_not_launched(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    current = world.look_for_offsets()
    catalog = world.catalog
    catalog.iceberg.drop_table(catalog.identifier(world.topic(kafka_topic.name).table))
    clock.now += CURRENT_SECONDS + 1
    first = world.look_for_offsets(current.cursor)
    clock.now += SUSPENDED_SECONDS + 1
    second = world.look_for_offsets(first.cursor)
    assert first_named(first) == first_named(second) == []
    (found,) = evaluations(first)
    assert "is gone from the catalog" in found.description
    assert f"tableflow rebuild {kafka_topic.name}" in found.description
    assert evaluations(second) == []


def test_a_table_that_was_rolled_back_is_launched_though_the_log_stands_still(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    before = world.table(kafka_topic.name).current_snapshot()
    assert before is not None
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    world.launch(kafka_topic.name)
    current = world.look_for_offsets()
    table = world.table(kafka_topic.name)
    table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    clock.now += CURRENT_SECONDS + 1
    assert first_named(world.look_for_offsets(current.cursor)) == [kafka_topic.name]


def test_a_current_topic_that_a_new_schema_suspends_is_reported(
    world: DagsterWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    """Nothing moves in the log: the sensor of schemas launched the run that failed."""
    current = world.look_for_offsets()
    kafka_topic.accept_any_schema()
    kafka_topic.register(WITH_TEXT)
    assert not world.launch(kafka_topic.name, raise_on_error=False).success
    clock.now += CURRENT_SECONDS + 1
    (found,) = evaluations(world.look_for_offsets(current.cursor))
    assert "does not fit the table" in found.description


# ---- how often tables are asked ----


def test_a_current_table_is_not_asked_in_every_look(
    world: DagsterWorld, loads: CountedLoads, clock: Clock
) -> None:
    cursor = world.look_for_offsets().cursor
    assert loads.count == 1
    for _ in range(5):
        clock.now += 1
        cursor = world.look_for_offsets(cursor).cursor
    assert loads.count == 1
    clock.now += CURRENT_SECONDS
    cursor = world.look_for_offsets(cursor).cursor
    world.look_for_offsets(cursor)
    assert loads.count == 2


def test_a_suspended_table_is_asked_every_few_seconds_however_its_log_moves(
    world: DagsterWorld, kafka_topic: KafkaTopic, loads: CountedLoads, clock: Clock
) -> None:
    suspend_topic(world, kafka_topic)
    loads.count = 0
    cursor = world.look_for_offsets().cursor
    for _ in range(4):
        clock.now += 1
        kafka_topic.send(PAYMENT, payments(1), partition=0)
        cursor = world.look_for_offsets(cursor).cursor
    assert loads.count == 1
    clock.now += SUSPENDED_SECONDS
    world.look_for_offsets(cursor)
    assert loads.count == 2


def test_no_look_asks_more_than_one_current_table(
    world_of: MakeWorld,
    kafka_topic: KafkaTopic,
    other_topic: KafkaTopic,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = (kafka_topic, other_topic)
    for topic in topics:
        topic.send(PAYMENT, payments(1))
    world = world_of(*(topic.name for topic in topics))
    world.launch(*(topic.name for topic in topics))
    cursor = world.look_for_offsets().cursor
    loads = CountedLoads(monkeypatch, world.catalog.iceberg)
    clock.now += CURRENT_SECONDS + 1
    counts = []
    for _ in range(3):
        cursor = world.look_for_offsets(cursor).cursor
        counts.append(loads.count)
    assert counts == [1, 2, 2]  # one after the other, each once


# ---- runs and checks ----


def test_a_run_of_a_suspended_topic_fails_with_reason_and_command_and_touches_nothing(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    suspend_topic(world, kafka_topic)
    before = world.table(kafka_topic.name).metadata_location
    with pytest.raises(Suspended, match="5 offsets expired") as caught:
        world.launch(kafka_topic.name)
    assert "--accept-loss" in caught.value.next_step
    assert world.table(kafka_topic.name).metadata_location == before


def test_the_check_passes_with_every_run_of_a_topic_that_goes_on(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    assert evaluation(world.launch(kafka_topic.name), "not_suspended").passed


def test_the_check_fails_while_the_topic_is_suspended(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    suspend_topic(world, kafka_topic)
    found = evaluation(world.run_job("verify"), "not_suspended")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert found.metadata["reason"].value == "5 offsets expired."
    assert "--accept-loss" in found.metadata["resolve"].value
    clear(world.catalog, world.topic(kafka_topic.name))
    assert evaluation(world.run_job("verify"), "not_suspended").passed


def test_the_check_passes_where_there_is_no_table_yet(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    assert evaluation(world_of(kafka_topic.name).run_job("verify"), "not_suspended").passed


def test_a_new_schema_version_launches_no_run_of_a_suspended_topic(
    world: DagsterWorld, kafka_topic: KafkaTopic
) -> None:
    first = world.look_for_schemas()
    suspend_topic(world, kafka_topic)
    kafka_topic.register(WITH_NOTE)
    second = world.look_for_schemas(first.cursor)
    assert first_named(second) == []
    assert second.cursor != first.cursor
