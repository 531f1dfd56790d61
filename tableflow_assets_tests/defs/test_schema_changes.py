"""The sensor that notices new schema versions, on the real registry."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets.defs.partitions import current_window
from tableflow_assets.defs.resources import RegistryResource
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import payments
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic

WITH_NOTE: dict[str, Any] = {
    **PAYMENT,
    "fields": [*PAYMENT["fields"], {"name": "note", "type": ["null", "string"], "default": None}],
}


def requested(tick: SensorExecutionData) -> list[dg.AssetKey]:
    return [key for request in tick.run_requests or () for key in request.asset_selection or ()]


def observed_versions(tick: SensorExecutionData) -> dict[str, int]:
    return {
        event.asset_key.to_user_string(): event.metadata["schema_version"].value
        for event in tick.asset_events
    }


def test_the_first_tick_observes_the_version_and_asks_for_nothing(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    tick = world_of(kafka_topic.name).look_for_schemas()
    assert requested(tick) == []
    assert tick.skip_message == "1 topics, no new schema version"
    assert observed_versions(tick) == {f"kafka/{kafka_topic.name}": 1}


def test_a_tick_without_a_change_observes_nothing_and_asks_for_nothing(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    world = world_of(kafka_topic.name)
    tick = world.look_for_schemas(world.look_for_schemas().cursor)
    assert (requested(tick), observed_versions(tick)) == ([], {})


def test_a_new_version_is_observed_and_its_table_launched_once(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    other_topic.register(PAYMENT)
    world = world_of(kafka_topic.name, other_topic.name)
    first = world.look_for_schemas()
    kafka_topic.register(WITH_NOTE)

    second = world.look_for_schemas(first.cursor)
    third = world.look_for_schemas(second.cursor)

    (request,) = second.run_requests
    assert request.asset_selection == [world.key(kafka_topic.name)]
    assert request.partition_key == current_window(world.topic(kafka_topic.name))
    assert observed_versions(second) == {f"kafka/{kafka_topic.name}": 2}
    assert requested(third) == []


def test_a_launched_table_has_the_new_column_before_any_record_uses_it(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    """What the sensor launches a run for. The log has nothing new, so the plan of it is empty."""
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    kafka_topic.register(WITH_NOTE)
    world.launch(kafka_topic.name)
    columns = {field.name for field in world.table(kafka_topic.name).schema().fields}
    assert columns == {"id", "amount", "note", "_kafka"}


def test_the_first_record_of_a_new_version_brings_its_column_along(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    kafka_topic.send(WITH_NOTE, [{"id": 4, "amount": None, "note": "new"}])
    world.launch(kafka_topic.name)
    notes = world.table(kafka_topic.name).scan().to_arrow()["note"].to_pylist()
    assert sorted(notes, key=str) == [None, None, None, "new"]


def test_a_topic_without_a_schema_is_passed_over(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    other_topic.register(PAYMENT)
    tick = world_of(kafka_topic.name, other_topic.name).look_for_schemas()
    assert observed_versions(tick) == {f"kafka/{other_topic.name}": 1}


def test_a_topics_first_version_launches_nothing(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    world = world_of(kafka_topic.name)
    first = world.look_for_schemas()
    kafka_topic.register(PAYMENT)
    second = world.look_for_schemas(first.cursor)
    assert requested(second) == []
    assert observed_versions(second) == {f"kafka/{kafka_topic.name}": 1}


def test_without_the_registry_a_tick_skips_and_names_its_address(
    world_of: MakeWorld, kafka_topic: KafkaTopic, closed_port: int
) -> None:
    nobody = RegistryResource(url=f"http://127.0.0.1:{closed_port}")
    tick = world_of(kafka_topic.name).look_for_schemas("the cursor", registry=nobody)
    assert requested(tick) == []
    address = f"http://127.0.0.1:{closed_port}"
    assert f"The schema registry at {address} does not answer" in tick.skip_message
    assert "Next step" in tick.skip_message
    assert tick.cursor == "the cursor"


@pytest.mark.parametrize("cursor", ["not JSON", "[1]", '"text"', "null", "3"])
def test_a_cursor_that_cannot_be_read_counts_as_the_first_tick(
    world_of: MakeWorld, kafka_topic: KafkaTopic, cursor: str
) -> None:
    kafka_topic.register(PAYMENT)
    world = world_of(kafka_topic.name)
    tick = world.look_for_schemas(cursor)
    assert requested(tick) == []
    assert observed_versions(tick) == {f"kafka/{kafka_topic.name}": 1}
    assert tick.cursor == world.look_for_schemas().cursor
