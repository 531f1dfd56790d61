"""One topic's fault is its own: it is named in the tick, its table stays, and the others go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.suspension import PROPERTY as SUSPENDED
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    first_named,
    payments,
    settings_on,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.support.tables import append_an_entry_of_a_newer_version


@pytest.fixture
def world(world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic) -> DagsterWorld:
    """Two topics: the first has a table, the second is new."""
    kafka_topic.send(PAYMENT, payments(2))
    world = world_of(kafka_topic.name, other_topic.name)
    assert world.launch(kafka_topic.name).success
    kafka_topic.send(PAYMENT, payments(1))
    other_topic.send(PAYMENT, payments(1))
    return world


def test_an_entry_of_a_newer_version_stops_no_other_topic(
    world: DagsterWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    table = world.table(kafka_topic.name)
    append_an_entry_of_a_newer_version(table)
    before = world.table(kafka_topic.name).metadata_location

    tick = world.look_for_offsets()

    assert first_named(tick) == [other_topic.name]
    assert world.table(kafka_topic.name).metadata_location == before
    again = world.look_for_offsets(tick.cursor)
    assert "written by a newer version" in (again.skip_message or "")


def test_an_unforeseen_exception_stops_no_other_topic(
    world: DagsterWorld,
    kafka_topic: KafkaTopic,
    other_topic: KafkaTopic,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken, find = world.topic(kafka_topic.name).table, RestCatalog.find

    def find_or_break(catalog: RestCatalog, name: str) -> Any:
        if name == broken:
            raise KeyError("what nobody foresaw")
        return find(catalog, name)

    monkeypatch.setattr(RestCatalog, "find", find_or_break)
    tick = world.look_for_offsets()
    assert first_named(tick) == [other_topic.name]
    message = world.look_for_offsets(tick.cursor).skip_message or ""
    assert f"{kafka_topic.name}: Unforeseen KeyError: 'what nobody foresaw'" in message
    (log_file,) = (world.settings.state_dir / "logs").glob(f"fault-{kafka_topic.name}-*.log")
    assert "find_or_break" in log_file.read_text()


def test_a_tick_of_another_cluster_asks_for_no_run_and_suspends_nothing(
    world: DagsterWorld, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.table(kafka_topic.name).metadata_location
    monkeypatch.setattr(Log, "cluster_id", lambda _: "the-laptops-own")
    tick = world.look_for_offsets()
    assert kafka_topic.name not in first_named(tick)
    message = world.look_for_offsets(tick.cursor).skip_message or ""
    assert "this deployment reads the-laptops-own" in message
    assert world.table(kafka_topic.name).metadata_location == before


# ---- two topics whose tables would have one name ----


@pytest.fixture
def rival(session_settings: Settings, kafka_topic: KafkaTopic) -> KafkaTopic:
    """Sorts before the topic, and would have the same table."""
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return KafkaTopic(kafka, registry, kafka_topic.name.replace("test-", "Test-"))


def test_a_topic_that_comes_later_does_not_take_over_the_table_of_another(
    stack: Stack, tmp_path: Path, kafka_topic: KafkaTopic, rival: KafkaTopic
) -> None:
    pattern = {f"[tT]{kafka_topic.name[1:]}": TopicOptions()}
    settings = settings_on(stack.state.folder, tmp_path / "state", topics=pattern)
    rival.delete()
    DagsterWorld(settings).look_for_offsets()
    world = DagsterWorld(settings)
    kafka_topic.send(PAYMENT, payments(2))
    assert world.launch(kafka_topic.name).success

    rival.create(partitions=2)
    rival.send(PAYMENT, payments(5))
    world.look_for_offsets()
    assert [topic.name for topic in DagsterWorld(settings).topics] == [kafka_topic.name]

    # A deployment that remembers nothing takes the first by name, until the table says whose it is.
    elsewhere = settings_on(stack.state.folder, tmp_path / "elsewhere", topics=pattern)
    DagsterWorld(elsewhere).look_for_offsets()
    lost = DagsterWorld(elsewhere)
    assert [topic.name for topic in lost.topics] == [rival.name]
    before = world.table(kafka_topic.name)
    message = lost.look_for_offsets().skip_message or ""
    assert f"holds the rows of {kafka_topic.name!r}" in message
    assert "rebuild" not in message
    run = lost.launch(rival.name, raise_on_error=False)
    assert not run.success
    after = world.table(kafka_topic.name)
    assert after.metadata_location == before.metadata_location
    assert SUSPENDED not in after.properties
    found = DagsterWorld(elsewhere)
    assert [topic.name for topic in found.topics] == [kafka_topic.name]
    kafka_topic.send(PAYMENT, payments(1))
    assert first_named(found.look_for_offsets()) == [kafka_topic.name]
