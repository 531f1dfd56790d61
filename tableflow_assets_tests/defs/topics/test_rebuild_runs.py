"""Runs with `rebuild: true`, and runs of tables with keys."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult
from pyiceberg.table import Table

from tableflow_assets.base.errors import RebuildFailed
from tableflow_assets.settings.settings import TopicOptions
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    day_key,
    materializations,
    milliseconds,
    payments,
    rows_of,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


def send(topic: KafkaTopic, count: int, days_ago: int, **message: Any) -> None:
    topic.send(PAYMENT, payments(count), timestamp=milliseconds(day(days_ago)), **message)


def rebuild(world: DagsterWorld, name: str, **how: Any) -> ExecuteInProcessResult:
    node = world.key(name).to_python_identifier()
    config = {"ops": {node: {"ops": {"materialize": {"config": {"rebuild": True}}}}}}
    return world.launch(name, run_config=config, **how)


def lose_the_rows_of(table: Table, days_ago: int) -> None:
    """Behind our back, and so that the ledger believes it."""
    rows = table.scan().to_arrow()
    left = [at.date() != day(days_ago).date() for at in timestamps_of(rows)]
    properties = {PROPERTY: read_ledger(table).entry.to_property()}
    table.overwrite(rows.filter(left), snapshot_properties=properties)


def timestamps_of(rows: pa.Table) -> list[datetime]:
    return [row["timestamp"] for row in rows["_kafka"].to_pylist()]


def test_a_window_launched_with_rebuild_is_read_from_the_log_again(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    for days_ago, count in ((3, 1), (2, 2), (1, 4)):
        send(kafka_topic, count, days_ago)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    lose_the_rows_of(world.table(kafka_topic.name), 2)
    assert rows_of(world.table(kafka_topic.name)) == 5

    run = rebuild(world, kafka_topic.name, window=day_key(2))

    assert rows_of(world.table(kafka_topic.name)) == 7
    about = materializations(run)[day_key(2)]
    assert (about["dagster/partition_row_count"], about["rows_added"]) == (2, 2)


def test_a_window_is_not_rebuilt_unless_asked(world_of: MakeWorld, kafka_topic: KafkaTopic) -> None:
    send(kafka_topic, 2, 1)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    lose_the_rows_of(world.table(kafka_topic.name), 1)
    world.launch(kafka_topic.name, window=day_key(1))
    assert rows_of(world.table(kafka_topic.name)) == 0


def test_a_window_that_the_log_no_longer_holds_fails_the_run_and_keeps_its_rows(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 3, 2, partition=0)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    kafka_topic.delete_records_before(0, 2)
    with pytest.raises(RebuildFailed, match=r"would lose 2 rows.*no longer holds all records"):
        rebuild(world, kafka_topic.name, window=day_key(2))
    assert rows_of(world.table(kafka_topic.name)) == 3


def test_the_first_window_takes_what_is_older_with_it(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    for days_ago in (5, 3, 1):
        send(kafka_topic, 1, days_ago)
    world = world_of(kafka_topic.name, first_day=day(3).date())
    world.launch(kafka_topic.name)
    lose_the_rows_of(world.table(kafka_topic.name), 5)
    rebuild(world, kafka_topic.name, window=day_key(3))
    assert rows_of(world.table(kafka_topic.name)) == 3


def test_a_table_with_keys_reports_how_many_keys_changed_in_each_window(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 3, 2, key="a", partition=0)
    send(kafka_topic, 1, 2, key="b", partition=0)
    send(kafka_topic, 2, 1, key="c", partition=0)
    world = world_of(topics={kafka_topic.name: TopicOptions(mode="upsert")})

    run = world.launch(kafka_topic.name)

    assert run.success
    reported = materializations(run)
    assert {k: about["keys_changed"] for k, about in reported.items() if about["keys_changed"]} == {
        day_key(2): 2,
        day_key(1): 1,
    }
    assert {about["dagster/row_count"] for about in reported.values()} == {3}

    send(kafka_topic, 1, 1, key="a", partition=0)
    kafka_topic.send_bytes([None], key="b", partition=0)
    run = world.launch(kafka_topic.name)
    assert {about["dagster/row_count"] for about in materializations(run).values()} == {2}
