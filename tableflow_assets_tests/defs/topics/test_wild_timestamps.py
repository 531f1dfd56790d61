"""A record whose timestamp no calendar has, as Dagster meets it: discovered, read, counted, maintained."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tableflow_assets.defs.partitions import current_window
from tableflow_assets.settings.settings import TopicOptions
from tableflow_assets.source.discovery import remembered_topics
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    first_named,
    materializations,
    payments,
    settings_on,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

MICROSECONDS = int(datetime.now(UTC).timestamp() * 1_000_000)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_new_topic_that_begins_with_microseconds_is_found_read_and_maintained(
    stack: Stack, tmp_path: Path, kafka_topic: KafkaTopic, mode: str
) -> None:
    kafka_topic.accept_any_timestamp()
    kafka_topic.send(PAYMENT, payments(2), partition=0, key="a", timestamp=MICROSECONDS)
    kafka_topic.send(PAYMENT, payments(1), partition=0, key="b", timestamp=-86_400_000)
    kafka_topic.send(PAYMENT, payments(3), partition=0, key="c")
    options = {f"{kafka_topic.name}*": TopicOptions(mode=mode, key="string")}
    settings = settings_on(stack.state.folder, tmp_path / "state", topics=options)
    DagsterWorld(settings).look_for_offsets()
    today = datetime.now(UTC).date()
    assert remembered_topics(settings) == {kafka_topic.name: today}

    world = DagsterWorld(settings)
    assert first_named(world.look_for_offsets()) == [kafka_topic.name]
    window = current_window(world.topic(kafka_topic.name))
    run = world.launch(kafka_topic.name)

    assert run.success
    # Before the first window: counted to the first. Far in the future: kept, and a warning.
    about = materializations(run)[window]
    changed = about["rows_added"] if mode == "append" else about["keys_changed"]
    assert (changed, about["dagster/row_count"]) == ((4, 6) if mode == "append" else (2, 3))
    assert world.run_job(
        "maintain", run_config={"ops": {"choose": {"config": {"topics": [kafka_topic.name]}}}}
    ).success
