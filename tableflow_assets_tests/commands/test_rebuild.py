"""`tableflow rebuild`: a whole table, or some windows, from the log again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of, verified

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Three rows of two keys, all written today."""
    kafka_topic.send(PAYMENT, payments(2), key="a", partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=2), key="b", partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def test_a_mode_that_was_changed_in_the_settings_takes_effect_with_a_rebuild(
    command: Command,
    config_file: Callable[[str], str],
    tableflow: Tableflow,
    pipeline: Pipeline,
) -> None:
    topic = pipeline.topic.name
    settings = config_file(
        f"topics:\n  {topic}: {{mode: upsert}}\n  shiftleft.public.orders: {{}}\n"
        f"products:\n  unique_payments: {{inputs: {{payments: {topic}}}}}\n  completed_orders: {{}}\n"
    )
    answer = command("--config", settings, "materialize", topic)
    assert (answer.code, f"tableflow rebuild {topic}" in answer.err) == (1, True)
    answer = command("--config", settings, "rebuild", topic, "--json")
    assert (answer.code, answer.json["topic"], answer.json["records"]) == (0, topic, 3)
    assert answer.json["rows"] == 2, "one for each key"
    assert answer.json["products"] == ["unique_payments", "completed_orders"]
    assert "will be computed again: unique_payments, completed_orders." in answer.err
    assert answer.json["snapshot"] == str(head_of(pipeline))
    assert ids_of(pipeline) == [1, 2]


def test_a_window_is_rebuilt_alone(command: Command, pipeline: Pipeline) -> None:
    before = head_of(pipeline)
    answer = command("rebuild", pipeline.topic.name, "--window", today(), "--until", today())
    assert answer.code == 0, answer.err
    assert "Rebuilt" in answer.out
    assert head_of(pipeline) != before
    assert ids_of(pipeline) == [0, 1, 2]
    verified(pipeline)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--window", "yesterday"), "Write a day as 2026-11-16"),
        (("--until", "2026-11-16"), "--until needs --window"),
    ],
)
def test_what_is_no_window_is_refused(
    command: Command, pipeline: Pipeline, arguments: tuple[str, ...], words: str
) -> None:
    before = table_of(pipeline).metadata_location
    answer = command("rebuild", pipeline.topic.name, *arguments)
    assert answer.code != 0
    assert words in answer.err
    assert table_of(pipeline).metadata_location == before
