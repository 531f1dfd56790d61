"""What a topic promises: when the sensor launches a run for it, and what Dagster shows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets import build_definitions
from tableflow_assets.defs.follow.job import follow_job
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.topics.freshness import UNTIL_REPORTED, freshness_evaluation
from tableflow_assets.defs.topics.look import CURRENT_SECONDS
from tableflow_assets.defs.topics.promise_watch import TELL_AGAIN_SECONDS, WATCH_SECONDS
from tableflow_assets.defs.topics.sighting import from_cursor
from tableflow_assets.follow.pace import Pace
from tableflow_assets.operate.promise import Promise
from tableflow_assets.settings.blocks import Commit
from tableflow_assets.settings.settings import Settings, Topic, TopicOptions
from tableflow_assets_tests.defs.conftest import Clock, MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    first_named,
    leave_a_run,
    payments,
    rows_of,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

MINUTE = timedelta(minutes=1)
Slow = Callable[..., tuple[DagsterWorld, KafkaTopic]]


@pytest.fixture
def slow(world_of: MakeWorld, kafka_topic: KafkaTopic) -> Slow:
    """A topic with a table, and three records that came a while ago."""

    def make(minutes: int = 0, **options: object) -> tuple[DagsterWorld, KafkaTopic]:
        world = world_of(topics={kafka_topic.name: TopicOptions.model_validate(options)})
        kafka_topic.send(PAYMENT, payments(1))
        world.launch(kafka_topic.name)
        stamp = int((time.time() - minutes * 60) * 1000)
        kafka_topic.send(PAYMENT, payments(3), timestamp=stamp)
        return world, kafka_topic

    return make


def told(tick: SensorExecutionData) -> list[dg.AssetCheckEvaluation]:
    """What the tick says of promises."""
    evaluations = [e for e in tick.asset_events if isinstance(e, dg.AssetCheckEvaluation)]
    return [found for found in evaluations if found.check_name == "freshness"]


def broken(tick: SensorExecutionData) -> list[bool]:
    return [not found.passed for found in told(tick)]


# ---- when the sensor launches a run ----


def test_what_may_gather_launches_no_run_until_it_is_due(slow: Slow, clock: Clock) -> None:
    world, topic = slow(minutes=10, commit=Commit(every=15 * MINUTE))
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    assert tick.skip_message == f"1 topics; gathering records: {topic.name}"

    clock.now += 4 * 60  # others may have committed since: the table is asked again, one a look
    topic.send(PAYMENT, payments(2))
    tick = world.look_for_offsets(tick.cursor)
    assert first_named(tick) == []

    clock.now += 61
    assert first_named(world.look_for_offsets(tick.cursor)) == [topic.name]
    assert first_named(world.look_for_offsets(None)) == [], "its oldest is ten minutes old, really"


def test_a_run_for_another_topic_is_not_told_to_begin_with_what_gathers(
    slow: Slow, other_topic: KafkaTopic
) -> None:
    world, _ = slow(commit=Commit(every=15 * MINUTE))
    other_topic.send(PAYMENT, payments(1))
    topics = world.settings.topics | {other_topic.name: TopicOptions()}
    both = DagsterWorld(world.settings.model_copy(update={"topics": topics}))
    assert first_named(both.look_for_offsets()) == [other_topic.name]


def test_enough_records_launch_a_run_at_once(slow: Slow) -> None:
    world, topic = slow(commit=Commit(every=15 * MINUTE), max_records=5)
    tick = world.look_for_offsets()
    assert first_named(tick) == []
    topic.send(PAYMENT, payments(2))
    assert first_named(world.look_for_offsets(tick.cursor)) == [topic.name]


def test_what_gathers_is_asked_for_again_once_somebody_has_committed_it(
    slow: Slow, clock: Clock
) -> None:
    world, topic = slow(minutes=14, commit=Commit(every=15 * MINUTE))
    tick = world.look_for_offsets()
    world.launch(topic.name)  # by hand: it commits at once
    assert rows_of(world.table(topic.name)) == 4
    topic.send(PAYMENT, payments(1))
    clock.now += CURRENT_SECONDS + 60
    tick = world.look_for_offsets(tick.cursor)
    assert first_named(tick) == []
    assert "gathering" in tick.skip_message


def test_while_a_run_stays_what_gathers_is_left_to_it(slow: Slow) -> None:
    """And takes no other topic's place among those whose tables are asked again."""
    world, topic = slow(commit=Commit(every=15 * MINUTE))
    tick = world.look_for_offsets()
    assert from_cursor(tick.cursor)[topic.name].unread_since
    leave_a_run(world.instance, dg.DagsterRunStatus.STARTED)
    topic.send(PAYMENT, payments(1))
    tick = world.look_for_offsets(tick.cursor)
    assert not from_cursor(tick.cursor)[topic.name].unread_since


# ---- what Dagster shows ----


def test_the_sensor_warns_while_a_promise_is_broken_whoever_should_commit(
    slow: Slow, clock: Clock
) -> None:
    world, topic = slow(minutes=3, freshness=MINUTE)
    leave_a_run(world.instance, dg.DagsterRunStatus.QUEUED)  # and it never comes
    tick = world.look_for_offsets()
    (warning,) = told(tick)
    assert (warning.passed, warning.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "`freshness` promises 1m" in str(warning.description)

    for seconds, reminders in ((WATCH_SECONDS, []), (TELL_AGAIN_SECONDS, [True])):
        clock.now += seconds
        tick = world.look_for_offsets(tick.cursor)
        assert broken(tick) == reminders

    world.launch(topic.name)
    clock.now += WATCH_SECONDS
    tick = world.look_for_offsets(tick.cursor)
    assert broken(tick) == [False]
    clock.now += TELL_AGAIN_SECONDS
    assert broken(world.look_for_offsets(tick.cursor)) == []


def test_a_promise_that_holds_is_no_news(slow: Slow) -> None:
    world, _ = slow(freshness=15 * MINUTE)
    assert broken(world.look_for_offsets()) == []


@pytest.mark.parametrize(("minutes", "passed"), [(0, True), (3, False)])
def test_the_check_asks_for_the_oldest_unread_record(
    slow: Slow, minutes: int, passed: bool
) -> None:
    world, topic = slow(minutes=minutes, freshness=MINUTE)
    found = world.run_check(topic.name, "freshness")
    assert (found.passed, found.severity) == (passed, dg.AssetCheckSeverity.WARN)
    assert found.metadata["unread_records"].value == 3
    assert float(found.metadata["oldest_unread_seconds"].value) >= minutes * 60


def test_a_run_that_stays_commits_what_is_due_and_reports_that_the_promise_holds(
    slow: Slow, other_topic: KafkaTopic
) -> None:
    world, topic = slow(minutes=3, freshness=MINUTE)
    other_topic.send(PAYMENT, payments(1))
    gathers = TopicOptions(commit=Commit(every=15 * MINUTE))
    topics = world.settings.topics | {other_topic.name: gathers}
    both = DagsterWorld(world.settings.model_copy(update={"topics": topics}))
    pace = replace(Pace(), look_seconds=0.1, idle_seconds=1.5)
    run = follow_job(both.settings, {}, pace).execute_in_process(
        instance=both.instance, resources=both.definitions.resources
    )
    assert rows_of(both.table(topic.name)) == 4
    assert rows_of(both.table(other_topic.name)) == 0
    (found,) = (e for e in run.get_asset_check_evaluations() if e.check_name == "freshness")
    assert (found.asset_key, found.passed) == (both.key(topic.name), True)


def test_an_age_that_nobody_knows_is_said_to_be_unknown() -> None:
    promise = Promise(Topic(name="t", freshness=MINUTE), unread=5, age_seconds=None)
    found = freshness_evaluation(promise, "n")
    assert not found.passed
    assert found.metadata["oldest_unread_seconds"].value == "unknown"


def test_only_who_promises_has_the_check_and_only_who_asks_has_dagsters_policy(
    tmp_path: Path,
) -> None:
    topics = {
        "nothing": TopicOptions(),
        "promised": TopicOptions(freshness=5 * MINUTE),
        "watched": TopicOptions(freshness=5 * MINUTE, freshness_policy=True),
    }
    graph = build_definitions(Settings(state_dir=tmp_path, topics=topics)).resolve_asset_graph()
    checks = {key.asset_key.path[-1] for key in graph.asset_check_keys if key.name == "freshness"}
    assert checks == {"promised", "watched"}
    policies = {
        name: graph.get(table_key(Topic(name=name), "tableflow")).freshness_policy_or_from_metadata
        for name in topics
    }
    assert policies == {
        "nothing": None,
        "promised": None,
        "watched": dg.FreshnessPolicy.time_window(5 * MINUTE + UNTIL_REPORTED),
    }
