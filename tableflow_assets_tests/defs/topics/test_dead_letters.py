"""Dead letters in Dagster: an asset of their own, told by the runs of the topic's table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import dagster as dg
import pytest

from tableflow_assets.defs.topics.dead_letters import RATE_CHECK_NAME, dead_letter_key
from tableflow_assets.settings.settings import TopicOptions
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    evaluation,
    milliseconds,
    payments,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


def test_a_run_reports_what_it_passed_over_and_how_bad_that_is(
    world_of: Callable[..., DagsterWorld], kafka_topic: KafkaTopic
) -> None:
    world = world_of(topics={kafka_topic.name: TopicOptions(dead_letter_threshold=0.25)})
    key = dead_letter_key(world.topic(kafka_topic.name), world.settings.namespace)
    now = milliseconds(datetime.now(UTC))

    kafka_topic.send(PAYMENT, payments(3), timestamp=now)
    clean = world.launch(kafka_topic.name)
    assert evaluation(clean, RATE_CHECK_NAME).passed
    assert evaluation(world.run_job("verify"), RATE_CHECK_NAME).passed
    assert world.instance.get_latest_materialization_event(key) is None

    kafka_topic.send(PAYMENT, payments(5), timestamp=now)
    kafka_topic.send_bytes([b"nonsense"], timestamp=now)
    warned = evaluation(world.launch(kafka_topic.name), RATE_CHECK_NAME)
    assert (warned.asset_key, warned.passed) == (key, False)
    assert warned.severity == dg.AssetCheckSeverity.WARN
    assert "1 of 6 could not be read. not_confluent_framed (1)" in str(warned.description)

    # Good records do not make it forget what waits.
    kafka_topic.send(PAYMENT, payments(5), timestamp=now)
    waits = evaluation(world.launch(kafka_topic.name), RATE_CHECK_NAME)
    assert (waits.passed, waits.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert (waits.metadata["dead_letters"].value, waits.metadata["waiting"].value) == (0, 1)
    assert waits.metadata["letters"].value == key
    assert f"1 waits: tableflow dead-letters list {kafka_topic.name}" in str(waits.description)
    asked = evaluation(world.run_job("verify"), RATE_CHECK_NAME)
    assert (asked.passed, asked.metadata["waiting"].value) == (False, 1)

    kafka_topic.send_bytes([b"nonsense", None], timestamp=now)
    run = world.launch(kafka_topic.name)
    failed = evaluation(run, RATE_CHECK_NAME)
    assert (failed.passed, failed.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert failed.metadata["rate"].value == pytest.approx(1.0)
    event = world.instance.get_latest_materialization_event(key)
    assert event is not None
    assert event.run_id == run.run_id
    assert event.asset_materialization is not None
    about = event.asset_materialization.metadata
    assert (about["dead_letters"].value, about["waiting"].value) == (2, 3)
    by_class = {r.data["error"]: r.data["waiting"] for r in about["by_class"].value.records}  # type: ignore[union-attr]
    assert by_class == {"not_confluent_framed": 2, "null_value": 1}

    # Asked by itself, the check says the same of the run that read last.
    asked = evaluation(world.run_job("verify"), RATE_CHECK_NAME)
    assert (asked.passed, asked.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert asked.metadata["dead_letters"].value == 2


def test_the_checks_pass_where_there_is_no_table_yet(
    world_of: Callable[..., DagsterWorld], kafka_topic: KafkaTopic
) -> None:
    world = world_of(kafka_topic.name)
    assert evaluation(world.run_job("verify"), RATE_CHECK_NAME).passed
