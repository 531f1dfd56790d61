"""The sensor that notices new schema versions, on the real registry."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets.defs.partitions import current_window
from tableflow_assets.defs.resources import RegistryResource
from tableflow_assets.defs.topics.schema_fits import SCHEMA_CHECK_NAME, schema_evaluation
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.table.suspension import find_suspension
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import materializations, payments
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

WITH_NOTE: dict[str, Any] = {
    **PAYMENT,
    "fields": [
        *PAYMENT["fields"],
        {"name": "note", "type": ["null", "string"], "default": None, "doc": "By | the payer"},
    ],
}
ID_AS_TEXT: dict[str, Any] = {**PAYMENT, "fields": [{"name": "id", "type": "string"}]}


def requested(tick: SensorExecutionData) -> list[dg.AssetKey]:
    return [key for request in tick.run_requests or () for key in request.asset_selection or ()]


def observed_versions(tick: SensorExecutionData) -> dict[str, int]:
    return {
        event.asset_key.to_user_string(): event.metadata["schema_version"].value
        for event in tick.asset_events
        if isinstance(event, dg.AssetObservation)
    }


def judged(tick: SensorExecutionData) -> list[dg.AssetCheckEvaluation]:
    return [event for event in tick.asset_events if isinstance(event, dg.AssetCheckEvaluation)]


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
    first = world.look_for_schemas()
    kafka_topic.register(WITH_NOTE)

    (fits,) = judged(world.look_for_schemas(first.cursor))
    run = world.launch(kafka_topic.name)

    columns = {field.name for field in world.table(kafka_topic.name).schema().fields}
    assert columns == {"id", "amount", "note", "_kafka"}
    assert (fits.asset_key, fits.check_name) == (world.key(kafka_topic.name), SCHEMA_CHECK_NAME)
    assert fits.passed
    assert fits.description == f"{kafka_topic.subject}: 1 added"
    assert "| `note` | added |  | `string` | NULL in the rows before it |" in str(
        fits.metadata["changes"].value
    )
    (reported,) = materializations(run).values()
    shown = {column.name: column for column in reported["dagster/column_schema"].columns}
    assert (shown["note"].type, shown["note"].description) == ("string", "By | the payer")
    assert shown["_kafka"].type.startswith("struct<partition: int, offset: long, ")


def test_a_version_that_is_refused_is_seen_on_the_check_and_suspends_that_topic_alone(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    """The run never gets as far as its checks: the sensor tells what stands against it."""
    kafka_topic.send(PAYMENT, payments(1))
    other_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name, other_topic.name)
    world.launch(kafka_topic.name, other_topic.name)
    first = world.look_for_schemas()
    kafka_topic.accept_any_schema()
    kafka_topic.register(ID_AS_TEXT)
    other_topic.register(WITH_NOTE)

    second = world.look_for_schemas(first.cursor)
    refused, fits = judged(second)
    assert requested(second) == [world.key(kafka_topic.name), world.key(other_topic.name)]
    assert (refused.passed, refused.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert refused.description == f"{kafka_topic.subject}: 1 refused, 1 dropped"
    assert str(refused.metadata["changes"].value).splitlines()[2] == (
        "| `id` | refused | `int` | `string` | values already written cannot become text |"
    )
    assert fits.passed

    run = world.launch(kafka_topic.name, other_topic.name, raise_on_error=False)
    assert not run.success
    catalog, topic = world.catalog, world.topic(kafka_topic.name)
    suspension = find_suspension(catalog, topic, world.settings.state_dir)
    assert suspension is not None
    assert "id: int → string: values already written cannot become text" in suspension.reason
    assert world.table(other_topic.name).schema().find_field("note")

    # Mended, but suspended until somebody resumes it: nothing to launch, and the check is green.
    kafka_topic.register(WITH_NOTE)
    third = world.look_for_schemas(second.cursor)
    assert requested(third) == []
    assert kafka_topic.name in str(third.skip_message)
    assert [one.passed for one in judged(third)] == [True]


def test_a_first_schema_of_the_keys_is_a_change_of_a_table_that_is_there(
    world_of: MakeWorld, kafka_topic: KafkaTopic, session_settings: Settings
) -> None:
    kafka_topic.register(PAYMENT)
    world = world_of(kafka_topic.name)
    first = world.look_for_schemas()
    registry = SchemaRegistryClient({"url": connections.registry_address(session_settings)})
    registry.register_schema(f"{kafka_topic.name}-key", Schema('"long"', "AVRO"))
    second = world.look_for_schemas(first.cursor)
    assert requested(second) == [world.key(kafka_topic.name)]
    (event,) = (one for one in second.asset_events if isinstance(one, dg.AssetObservation))
    assert event.metadata["key_schema_version"].value == 1


def test_topics_that_no_schema_describes_are_not_asked_for(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    plain = {kafka_topic.name: TopicOptions(value="string", key="raw")}
    tick = world_of(topics=plain).look_for_schemas()
    assert (tick.cursor, tick.asset_events) == ("{}", [])


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


def test_a_subject_that_was_deleted_is_no_new_version(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    cursor = dumps({kafka_topic.subject: 3})
    tick = world_of(kafka_topic.name).look_for_schemas(cursor)
    assert (requested(tick), tick.asset_events) == ([], [])


def test_without_the_registry_a_tick_skips_and_the_check_says_that_it_does_not_know(
    world_of: MakeWorld, kafka_topic: KafkaTopic, closed_port: int, tmp_path: Path
) -> None:
    address = f"http://127.0.0.1:{closed_port}"
    nobody = RegistryResource(url=address, cache_folder=str(tmp_path))
    world = world_of(kafka_topic.name)
    tick = world.look_for_schemas("the cursor", tableflow_registry=nobody)
    assert requested(tick) == []
    assert f"The schema registry at {address} does not answer" in tick.skip_message
    assert "Next step" in tick.skip_message
    assert tick.cursor == "the cursor"

    topic = world.topic(kafka_topic.name)
    shown = schema_evaluation(topic, nobody.client(), world.catalog, world.settings)
    assert (shown.passed, shown.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert address in str(shown.description)


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
