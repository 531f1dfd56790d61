"""The sensor that launches runs, tick by tick, on the real stack."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource
from tableflow_assets.defs.staying import JOB_NAME, OP_NAME
from tableflow_assets.defs.topics.new_offsets import SENSOR_NAME
from tableflow_assets.defs.topics.sighting import FIRST_WAIT_SECONDS, Sighting
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.source import log
from tableflow_assets.source.discovery import remembered_topics
from tableflow_assets.stack import connections
from tableflow_assets_tests.defs.conftest import Clock, MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    append_as_a_stranger,
    day,
    first_named,
    leave_a_run,
    milliseconds,
    payments,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


def observed(tick: SensorExecutionData) -> dict[str, dict[str, Any]]:
    """Asset → what the tick says about it."""
    return {
        event.asset_key.to_user_string(): {k: v.value for k, v in event.metadata.items()}
        for event in tick.asset_events
        if isinstance(event, dg.AssetObservation)
    }


@pytest.fixture(scope="module")
def behind(session_settings: Settings) -> KafkaTopic:
    """A topic with 3 and 2 records in its partitions, and no table: every tick wants a run of it."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    topic.send(PAYMENT, payments(3), partition=0)
    topic.send(PAYMENT, payments(2), partition=1)
    return topic


# ---- when a run is asked for ----


def test_the_first_tick_asks_for_a_run_that_stays(world_of: MakeWorld, behind: KafkaTopic) -> None:
    world = world_of(behind.name)
    (request,) = world.look_for_offsets().run_requests
    assert request.job_name in (None, JOB_NAME)
    assert request.run_config == {"ops": {OP_NAME: {"config": {"first": [behind.name]}}}}
    assert request.tags[RUN_TAG] == SENSOR_NAME


def test_only_the_topic_with_new_records_is_launched(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name, other_topic.name)
    assert first_named(world.look_for_offsets()) == [kafka_topic.name]


def test_all_topics_that_are_behind_share_one_run_whatever_their_windows(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    other_topic.send(PAYMENT, payments(3))
    options = {
        kafka_topic.name: TopicOptions(first_window=day(3).date()),
        other_topic.name: TopicOptions(window="hour"),
    }
    tick = world_of(topics=options).look_for_offsets()
    assert len(tick.run_requests) == 1
    assert first_named(tick) == [kafka_topic.name, other_topic.name]


def test_records_that_come_during_a_tick_are_asked_for_in_this_tick(
    world_of: MakeWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    world = world_of(kafka_topic.name)
    # The first pause between two looks is when the records come.
    clock.sleep = lambda _: kafka_topic.send(PAYMENT, payments(1))
    assert first_named(world.look_for_offsets(seconds=30)) == [kafka_topic.name]


# ---- when none is ----


def test_a_tick_skips_with_a_reason_once_the_table_is_current(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name)
    first = world.look_for_offsets()
    world.launch(kafka_topic.name)
    second = world.look_for_offsets(first.cursor)
    assert first_named(second) == []
    assert second.skip_message == "1 topics"


def test_a_lost_cursor_gives_the_same_answer_as_a_kept_one(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    for topic in (kafka_topic, other_topic):
        topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name, other_topic.name)
    world.launch(kafka_topic.name, other_topic.name)
    kept = world.look_for_offsets().cursor
    other_topic.send(PAYMENT, payments(1))

    with_cursor, without = world.look_for_offsets(kept), world.look_for_offsets(None)

    assert first_named(with_cursor) == first_named(without) == [other_topic.name]


@pytest.mark.parametrize(
    "cursor",
    [
        "not JSON",
        "[1, 2]",
        "null",
        '{"TOPIC": 3}',
        '{"TOPIC": {"a_field_of_another_version": 1}}',
        # A known field with a value of another kind: it must not fail this tick and all later ones.
        '{"TOPIC": {"end": {}, "committed": 0, "is_current": false, "requested_at": null}}',
    ],
)
def test_a_cursor_that_cannot_be_read_counts_as_lost(
    world_of: MakeWorld, behind: KafkaTopic, cursor: str
) -> None:
    world = world_of(behind.name)
    tick = world.look_for_offsets(cursor.replace("TOPIC", behind.name))
    assert first_named(tick) == [behind.name]
    assert list(json.loads(tick.cursor)) == [behind.name]


def test_an_empty_topic_is_not_launched(world_of: MakeWorld, kafka_topic: KafkaTopic) -> None:
    tick = world_of(kafka_topic.name).look_for_offsets()
    assert first_named(tick) == []
    assert tick.skip_message == "1 topics"


def test_a_topic_that_does_not_exist_is_named_and_does_not_hold_up_the_others(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    world = world_of(kafka_topic.name, "not-created-yet")
    assert world.look_for_offsets().skip_message == "1 topics; not on the cluster: not-created-yet"
    kafka_topic.send(PAYMENT, payments(3))
    assert first_named(world.look_for_offsets()) == [kafka_topic.name]


@pytest.mark.parametrize(
    "status",
    [
        dg.DagsterRunStatus.QUEUED,
        dg.DagsterRunStatus.NOT_STARTED,
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    ],
)
def test_an_unfinished_run_of_the_sensor_holds_the_next_back(
    world_of: MakeWorld, behind: KafkaTopic, status: dg.DagsterRunStatus
) -> None:
    world = world_of(behind.name)
    leave_a_run(world.instance, status)
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    assert tick.skip_message == "1 topics; a run stays with the logs"


@pytest.mark.parametrize(
    ("status", "launched_by"),
    [
        (dg.DagsterRunStatus.SUCCESS, SENSOR_NAME),
        (dg.DagsterRunStatus.FAILURE, SENSOR_NAME),
        (dg.DagsterRunStatus.CANCELED, SENSOR_NAME),
        (dg.DagsterRunStatus.STARTED, "somebody"),
    ],
)
def test_a_finished_run_or_one_of_somebody_else_holds_nothing_back(
    world_of: MakeWorld,
    behind: KafkaTopic,
    status: dg.DagsterRunStatus,
    launched_by: str,
) -> None:
    world = world_of(behind.name)
    leave_a_run(world.instance, status, launched_by)
    assert first_named(world.look_for_offsets()) == [behind.name]


# ---- requests that bear no fruit ----


def test_a_fruitless_request_is_not_repeated_at_once_but_after_a_while(
    world_of: MakeWorld, behind: KafkaTopic, clock: Clock
) -> None:
    world = world_of(behind.name)
    first = world.look_for_offsets()
    clock.now += 1
    soon = world.look_for_offsets(first.cursor)
    clock.now += FIRST_WAIT_SECONDS * 2
    later = world.look_for_offsets(soon.cursor)
    assert first_named(soon) == []
    assert soon.skip_message == f"1 topics; waiting before trying again: {behind.name}"
    assert first_named(first) == first_named(later) == [behind.name]


def test_fruitless_requests_are_repeated_after_5_10_20_up_to_300_seconds() -> None:
    """As the comment above FIRST_WAIT_SECONDS promises."""

    def seconds_after(requests: int) -> int:
        seen = Sighting(requested_at=1_000_000, fruitless=requests)
        return next(wait for wait in range(1000) if seen.may_request(1_000_000 + wait))

    waits = [seconds_after(requests) for requests in (1, 2, 3, 4, 5, 6, 7, 50)]
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]


def test_after_progress_the_next_request_follows_at_once(
    world_of: MakeWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name)
    first = world.look_for_offsets()
    world.launch(kafka_topic.name)
    kafka_topic.send(PAYMENT, payments(2))
    assert first_named(world.look_for_offsets(first.cursor)) == [kafka_topic.name]


def test_one_topics_fruitless_requests_do_not_slow_down_another(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic, clock: Clock
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name, other_topic.name)
    first = world.look_for_offsets()
    other_topic.send(PAYMENT, payments(1))
    assert first_named(world.look_for_offsets(first.cursor)) == [other_topic.name]


def test_a_table_with_a_broken_ledger_does_not_stop_the_other_topics(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    other_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name, other_topic.name)
    world.launch(kafka_topic.name)
    append_as_a_stranger(world.table(kafka_topic.name))
    # The ledger of one table cannot be read: that is this table's fault, not everybody's.
    assert other_topic.name in first_named(world.look_for_offsets())


def test_without_room_on_the_disk_a_tick_skips_and_says_so(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name)
    with_room = world.settings
    world.settings = with_room.model_copy(update={"min_free_disk": "1000000TB"})
    tick = world.look_for_offsets("the cursor")
    assert first_named(tick) == []
    assert "Nothing is ingested while less than" in tick.skip_message
    assert tick.cursor == "the cursor"
    world.settings = with_room
    assert first_named(world.look_for_offsets()) == [kafka_topic.name]


# ---- servers that are away ----


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka's client asks a silent address for ten seconds; here one is enough."""
    monkeypatch.setattr(log, "TIMEOUT_SECONDS", 1.0)


@pytest.mark.usefixtures("impatient")
def test_without_kafka_a_tick_skips_and_names_its_address(
    world_of: MakeWorld, behind: KafkaTopic, closed_port: int
) -> None:
    nobody = KafkaResource(bootstrap_servers=f"127.0.0.1:{closed_port}")
    tick = world_of(behind.name).look_for_offsets("the cursor", tableflow_kafka=nobody)
    assert first_named(tick) == []
    assert f"Kafka at 127.0.0.1:{closed_port} does not answer" in tick.skip_message
    assert "Next step" in tick.skip_message
    assert tick.cursor == "the cursor"


def test_without_the_catalog_a_tick_skips_and_names_its_address(
    world_of: MakeWorld, behind: KafkaTopic, closed_port: int
) -> None:
    world = world_of(behind.name)
    address = f"http://127.0.0.1:{closed_port}"
    nobody = IcebergCatalogResource(
        namespace="tableflow",
        catalog={"uri": address},
        s3=world.definitions.resources["tableflow_s3"],
    )
    tick = world.look_for_offsets(tableflow_catalog=nobody)
    assert first_named(tick) == []
    assert f"The Iceberg catalog at {address} does not answer" in tick.skip_message
    assert "Next step" in tick.skip_message


def test_before_the_stack_was_ever_started_a_tick_skips_and_says_how_to_start_it(
    tmp_path: Path,
) -> None:
    """A skipped tick, as in schema_changes; not a failed one with a stack trace every five seconds."""
    world = DagsterWorld(Settings(state_dir=tmp_path, topics={"payments": TopicOptions()}))
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    assert "tableflow stack up" in tick.skip_message


# ---- what the sensor tells about topics ----


def test_the_end_offsets_of_a_topic_are_observed(world_of: MakeWorld, behind: KafkaTopic) -> None:
    (about,) = observed(world_of(behind.name).look_for_offsets()).values()
    assert about["end_offset_total"] == 5
    assert [record.data for record in about["end_offsets"].records] == [
        {"partition": 0, "end": 3},
        {"partition": 1, "end": 2},
    ]


def test_end_offsets_are_observed_once_a_minute_at_most_and_the_last_ones_in_any_case(
    world_of: MakeWorld, kafka_topic: KafkaTopic, clock: Clock
) -> None:
    world, name = world_of(kafka_topic.name), f"kafka/{kafka_topic.name}"
    kafka_topic.send(PAYMENT, payments(2))
    tick = world.look_for_offsets()
    assert observed(tick)[name]["end_offset_total"] == 2
    kafka_topic.send(PAYMENT, payments(3))
    clock.now += 30
    tick = world.look_for_offsets(tick.cursor)
    assert observed(tick) == {}
    clock.now += 31  # nothing has come since
    tick = world.look_for_offsets(tick.cursor)
    assert observed(tick)[name]["end_offset_total"] == 5
    clock.now += 61
    assert observed(world.look_for_offsets(tick.cursor)) == {}


def test_what_a_tick_saw_in_its_first_look_is_observed_though_it_looked_on(
    world_of: MakeWorld, behind: KafkaTopic
) -> None:
    """The daemon's ticks look several times; only the last look's result is handed on."""
    world = world_of(behind.name)
    leave_a_run(world.instance, dg.DagsterRunStatus.STARTED)
    tick = world.look_for_offsets(seconds=0.6)
    assert observed(tick)[f"kafka/{behind.name}"]["end_offset_total"] == 5


def test_a_new_topic_that_matches_a_pattern_is_remembered_after_one_tick(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    first_record = datetime.now(UTC) - timedelta(days=3)
    kafka_topic.send(PAYMENT, payments(1), timestamp=milliseconds(first_record))
    world = world_of(topics={f"{kafka_topic.name[:-1]}*": TopicOptions()})
    assert world.topics == ()

    world.look_for_offsets()

    assert remembered_topics(world.settings) == {kafka_topic.name: first_record.date()}
    # The definitions have it from the next load on.
    again = DagsterWorld(world.settings)
    assert first_named(again.look_for_offsets()) == [kafka_topic.name]


def test_a_webserver_that_cannot_reload_does_not_hold_up_the_tick(
    world_of: MakeWorld,
    kafka_topic: KafkaTopic,
    closed_port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TABLEFLOW_WEBSERVER_URL", f"http://127.0.0.1:{closed_port}")
    world = world_of(topics={f"{kafka_topic.name}*": TopicOptions()})
    tick = world.look_for_offsets()
    assert tick.skip_message == "0 topics"
    assert list(remembered_topics(world.settings)) == [kafka_topic.name]
