"""The catalogs in Dagster: what a run says of them, their assets, and the sensor that comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.defs.catalogs import unpublished_tables
from tableflow_assets.defs.catalogs.assets import catalog_key
from tableflow_assets.defs.catalogs.unpublished_tables import unpublished_tables_sensor
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.settings.settings import TopicOptions
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.conftest import Clock
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    duplicate_rows,
    evaluation,
    payments,
    settings_on,
)
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.support.crashes import break_the_look_at
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

CHECK = "published_to_analytics"


@dataclass
class Shown:
    world: DagsterWorld
    topic: KafkaTopic
    glue: GlueWorld
    cursor: str | None = None

    def run(self) -> dg.AssetCheckEvaluation:
        self.topic.send(PAYMENT, payments(3))
        done = self.world.launch(self.topic.name)
        assert done.success
        by_the_run, by_the_check = (
            one for one in done.get_asset_check_evaluations() if one.check_name == CHECK
        )
        assert by_the_run.passed == by_the_check.passed
        return by_the_run

    def check(self) -> dg.AssetCheckEvaluation:
        return self.world.run_check(self.topic.name, CHECK)

    def tick(self) -> list[dg.RunRequest]:
        sensor = unpublished_tables_sensor(self.world.topics, self.world.settings)
        told = self.world._tick(sensor, self.cursor, {})
        self.cursor = told.cursor
        return list(told.run_requests or [])

    def materialize_the_catalog(self) -> ExecuteInProcessResult:
        job = self.world.definitions.resolve_implicit_global_asset_job_def()
        return job.execute_in_process(
            asset_selection=[catalog_key("analytics")], instance=self.world.instance
        )


@pytest.fixture
def shown(stack: Stack, tmp_path: Path, kafka_topic: KafkaTopic) -> Iterator[Shown]:
    with GlueWorld() as glue:
        settings = settings_on(
            stack.state.folder,
            tmp_path / "state",
            topics={kafka_topic.name: TopicOptions()},
            catalogs={"analytics": glue.settings()},
        )
        yield Shown(DagsterWorld(settings, day(9).date()), kafka_topic, glue)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(unpublished_tables, "time", clock)
    return clock


def test_a_run_publishes_its_table_and_says_so(shown: Shown) -> None:
    said = shown.run()
    assert said.passed
    assert said.metadata["state"].value == "connected"
    head = shown.world.table(shown.topic.name).current_snapshot()
    assert head is not None
    assert said.metadata["snapshot_id"].value == str(head.snapshot_id)
    assert shown.check().passed


def test_a_catalog_that_was_never_looked_at_as_a_whole_is_once(shown: Shown, clock: Clock) -> None:
    assert shown.tick() == []  # there is no table yet
    shown.run()
    shown.tick()
    clock.now += 31
    assert len(shown.tick()) == 1
    assert shown.materialize_the_catalog().success
    clock.now += 10_000
    assert shown.tick() == []


def test_the_catalog_is_below_its_tables(shown: Shown) -> None:
    graph = shown.world.definitions.resolve_asset_graph()
    assert graph.get(catalog_key("analytics")).parent_keys == {shown.world.key(shown.topic.name)}


def test_a_catalog_that_is_down_fails_no_run_and_is_brought_up_to_date_later(
    shown: Shown, clock: Clock
) -> None:
    shown.run()
    writes = shown.glue.writes()
    with shown.glue.is_down():
        for _ in range(2):
            said = shown.run()
            assert not said.passed
            assert said.severity == dg.AssetCheckSeverity.WARN
            assert said.metadata["state"].value == "failed"
        assert shown.tick() == []  # not at once: a run may just be about to publish
        clock.now += 31
        (request,) = shown.tick()
        assert request.asset_selection == [catalog_key("analytics")]
        failed = shown.materialize_the_catalog()
        assert failed.success  # the tables are as they should be: it is no failure of theirs
        assert not evaluation(failed, CHECK).passed
        clock.now += 29
        assert shown.tick() == []
        clock.now += 2
        assert len(shown.tick()) == 1
        clock.now += 31
        assert shown.tick() == []  # each time it waits twice as long
    done = shown.materialize_the_catalog()
    assert evaluation(done, CHECK).passed
    (made,) = done.asset_materializations_for_node("catalogs__analytics")
    assert made.metadata["state"].value == "connected"
    assert shown.glue.writes() == writes + 1
    clock.now += 10_000
    assert shown.tick() == []
    assert shown.check().passed


def test_what_others_commit_is_published_too(shown: Shown, clock: Clock) -> None:
    shown.run()
    duplicate_rows(shown.world.table(shown.topic.name))
    said = shown.check()
    assert not said.passed
    assert said.metadata["behind"].value == 1
    shown.tick()
    clock.now += 31
    assert len(shown.tick()) == 1
    shown.materialize_the_catalog()
    assert shown.check().passed


def test_a_table_that_crashes_the_look_at_it_holds_up_no_other(
    shown: Shown, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown.run()
    (topic,) = shown.world.topics
    break_the_look_at("broken", monkeypatch)
    tables = (topic.model_copy(update={"name": "broken"}), topic)
    sensor = unpublished_tables_sensor(tables, shown.world.settings)
    tick = shown.world._tick(sensor, None, {})
    clock.now += 31
    tick = shown.world._tick(sensor, tick.cursor, {})
    assert [request.asset_selection for request in tick.run_requests or []] == [
        [catalog_key("analytics")]
    ]


def test_a_table_that_is_not_ours_stays_and_the_run_says_why(shown: Shown) -> None:
    shown.run()
    publisher = Publisher(shown.world.settings, shown.world.catalog)
    source = publisher.source(shown.world.topic(shown.topic.name).table)
    assert source is not None
    place = shown.glue.place(source)
    shown.glue.client().delete_table(**place)
    shown.glue.client().create_table(
        DatabaseName=place["DatabaseName"],
        TableInput={"Name": place["Name"], "Parameters": {"classification": "csv"}},
    )
    said = shown.run()
    assert not said.passed
    assert "was not published from here" in str(said.description)
    assert shown.glue.table(source)["Parameters"] == {"classification": "csv"}
