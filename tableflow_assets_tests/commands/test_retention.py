"""`tableflow retention`: what it shows, and what it drops."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of

pytestmark = pytest.mark.usefixtures("on_stack")
LONG_AGO = int(datetime(2024, 1, 1, tzinfo=UTC).timestamp() * 1000)


def test_it_shows_what_would_go_and_drops_it_and_verify_counts_it(
    command: Command,
    config_file: Callable[[str], str],
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0, timestamp=LONG_AGO)
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    topic = kafka_topic.name
    with_settings = ("--config", config_file(f"topics:\n  {topic}: {{retention: 90 days}}\n"))

    would = command(*with_settings, "retention", topic, "--dry-run")
    assert would.code == 0, would.err
    assert "Would be dropped" in would.out
    assert "2 rows of 1 window, in 1 file; 0 dead letters." in would.out
    assert ids_of(pipeline) == [0, 1, 2]

    done = command(*with_settings, "retention", topic, "--json")
    assert done.json | {"before": ""} == {
        "topic": topic,
        "before": "",
        "is_done": True,
        "rows": 2,
        "windows": [{"start": "2024-01-01T00:00:00+00:00", "rows": 2}],
        "files": 1,
        "dead_letters": 0,
        "letters_deleted": 0,
        "snapshot": str(head_of(pipeline)),
    }
    assert ids_of(pipeline) == [2]

    again = command(*with_settings, "retention", topic)
    assert (again.code, "nothing is older than" in again.out) == (0, True)
    assert command("verify", topic, "--json").json[0]["dropped"] == 2
    shown = command("verify", topic)
    assert (shown.code, "dropped" in shown.out) == (0, True)


def test_a_topic_without_retention_is_told_how_to_set_it(command: Command) -> None:
    answer = command("retention", "orders")
    assert (answer.code, answer.out) == (1, "")
    assert "its rows stay for ever" in answer.err
    assert "retention: 90 days" in answer.err
