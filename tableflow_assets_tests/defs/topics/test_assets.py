"""Runs of a table's asset, on the real stack: what lands, and what Dagster is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.defs.partitions import current_window
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack import connections
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    append_as_a_stranger,
    day,
    day_key,
    duplicate_rows,
    evaluation,
    materializations,
    milliseconds,
    payments,
    rows_of,
    settings_on,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

# Days ago → records sent with a timestamp of that day. The first window is that of two days ago.
SENT = {5: 1, 2: 3, 1: 2, 0: 5}


def send(topic: KafkaTopic, count: int, moment: datetime, **message: Any) -> None:
    topic.send(PAYMENT, payments(count), timestamp=milliseconds(moment), **message)


@dataclass
class Landed:
    """One run of the current window, over records of several days, looked at by many tests."""

    world: DagsterWorld
    name: str
    run: ExecuteInProcessResult

    @property
    def reported(self) -> dict[str, dict[str, Any]]:
        return materializations(self.run)

    @property
    def today(self) -> dict[str, Any]:
        return self.reported[self.window]

    @property
    def window(self) -> str:
        return str(self.run.dagster_run.tags["dagster/partition"])


@pytest.fixture(scope="module")
def landed(
    stack: Stack, session_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Landed]:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    for days_ago, count in SENT.items():
        moment = day(days_ago) if days_ago else datetime.now(UTC)
        send(topic, count, moment)
    state = tmp_path_factory.mktemp("landed")
    settings = settings_on(stack.state.folder, state, topics={topic.name: TopicOptions()})
    world = DagsterWorld(settings, day(2).date())
    yield Landed(world, topic.name, world.launch(topic.name))


def test_launching_the_current_window_lands_every_record_of_the_log(landed: Landed) -> None:
    assert landed.run.success
    assert rows_of(landed.world.table(landed.name)) == sum(SENT.values())


def test_a_run_plans_materializes_mirrors_syncs_the_catalog_and_checks(landed: Landed) -> None:
    steps = [event.step_key for event in landed.run.all_events if event.is_step_success]
    prefix = landed.world.key(landed.name).to_python_identifier()
    assert steps == [
        f"{prefix}.plan",
        f"{prefix}.materialize",
        f"{prefix}.mirror",
        f"{prefix}.sync_catalog",
        f"{prefix}_delta_mirror",
        f"{prefix}_exactly_once",
        f"{prefix}_maintenance",
        f"{prefix}_not_suspended",
        f"{prefix}_schema_fits",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dagster/row_count", 11),
        ("dagster/partition_row_count", 5),
        ("rows_added", 5),
        ("rows_committed", 11),
        ("dead_letters", 0),
        ("commits", 1),
    ],
)
def test_the_launched_window_says_how_much_it_and_the_table_hold(
    landed: Landed, key: str, value: int
) -> None:
    assert landed.today[key] == value


def test_the_launched_window_shows_the_columns_with_the_schemas_descriptions(
    landed: Landed,
) -> None:
    columns = {column.name: column for column in landed.today["dagster/column_schema"].columns}
    assert list(columns) == ["id", "amount", "_kafka"]
    assert (columns["id"].type, columns["id"].description) == ("int", "The payment's number")
    assert (columns["amount"].type, columns["amount"].description) == ("double", None)
    assert "place in the Kafka log" in columns["_kafka"].description


def test_the_launched_window_names_the_tables_place_and_snapshot(landed: Landed) -> None:
    table = landed.world.table(landed.name)
    assert landed.today["dagster/uri"] == table.location()
    assert landed.today["dagster/uri"].startswith("s3://")
    assert landed.today["snapshot_id"] == str(table.current_snapshot().snapshot_id)


def test_the_assets_page_shows_the_tables_name(landed: Landed) -> None:
    key = landed.world.key(landed.name)
    about = landed.world.definitions.resolve_asset_graph().get(key).metadata
    assert about["dagster/table_name"] == f"tableflow.{landed.world.topic(landed.name).table}"


def test_the_launched_window_shows_the_committed_offsets_of_every_partition(
    landed: Landed,
) -> None:
    offsets = [record.data for record in landed.today["offsets"].records]
    assert [row["partition"] for row in offsets] == [0, 1]
    assert [row["start"] for row in offsets] == [0, 0]
    assert sum(row["end"] for row in offsets) == sum(SENT.values())


def test_records_of_older_windows_are_reported_for_these_windows_with_their_own_counts(
    landed: Landed,
) -> None:
    counts = {key: about["dagster/partition_row_count"] for key, about in landed.reported.items()}
    # What is older than the first window, here by three days, counts to the first.
    assert counts == {day_key(2): SENT[2] + SENT[5], day_key(1): SENT[1], landed.window: SENT[0]}
    assert {key: about["rows_added"] for key, about in landed.reported.items()} == counts


def test_dagster_counts_the_windows_that_a_run_has_touched_as_materialized(landed: Landed) -> None:
    key = landed.world.key(landed.name)
    found = landed.world.instance.get_materialized_partitions(key)
    assert found == {day_key(2), day_key(1), landed.window}


def test_the_exactly_once_check_of_a_run_passes_over_what_it_committed(landed: Landed) -> None:
    check = evaluation(landed.run, "exactly_once")
    assert check.asset_key == landed.world.key(landed.name)
    assert check.passed
    found = {name: value.value for name, value in check.metadata.items()}
    assert (found["records"], found["missing"], found["duplicated"]) == (11, 0, 0)


# ---- single windows, launched by hand ----


def test_launching_a_past_window_brings_only_the_records_before_its_end(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    for days_ago, count in ((3, 4), (2, 3), (1, 2)):
        send(kafka_topic, count, day(days_ago), partition=0)
    world = world_of(kafka_topic.name)

    # One window has a partition key, and no range of them: the run must heed its end all the same.
    run = world.launch(kafka_topic.name, window=day_key(2))

    assert rows_of(world.table(kafka_topic.name)) == 7
    assert set(materializations(run)) == {day_key(3), day_key(2)}


def test_records_after_a_past_windows_end_come_with_a_later_launch(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    for days_ago, count in ((2, 3), (1, 2)):
        send(kafka_topic, count, day(days_ago), partition=0)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name, window=day_key(2))

    run = world.launch(kafka_topic.name, window=day_key(1))

    assert materializations(run)[day_key(1)]["rows_added"] == 2
    assert rows_of(world.table(kafka_topic.name)) == 5


def test_launching_a_complete_window_again_changes_no_snapshot(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 3, day(1))
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    before = world.table(kafka_topic.name).metadata.snapshots

    run = world.launch(kafka_topic.name, window=day_key(1))

    assert world.table(kafka_topic.name).metadata.snapshots == before
    about = materializations(run)[day_key(1)]
    assert (about["dagster/partition_row_count"], about["rows_added"]) == (3, 0)


def test_a_backfill_of_a_range_is_one_run_that_reports_every_window_of_it(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    for days_ago, count in ((4, 1), (3, 2), (1, 4), (0, 5)):
        moment = day(days_ago) if days_ago else datetime.now(UTC)
        send(kafka_topic, count, moment, partition=0)
    world = world_of(kafka_topic.name)

    run = world.launch_range(kafka_topic.name, first=day_key(4), last=day_key(1))

    counts = {k: about["dagster/partition_row_count"] for k, about in materializations(run).items()}
    assert counts == {day_key(4): 1, day_key(3): 2, day_key(2): 0, day_key(1): 4}
    assert rows_of(world.table(kafka_topic.name)) == 7


def test_a_launch_of_an_empty_topic_makes_an_empty_table(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(PAYMENT)
    world = world_of(kafka_topic.name)
    run = world.launch(kafka_topic.name)
    (about,) = materializations(run).values()
    assert (about["dagster/row_count"], about["commits"]) == (0, 0)
    assert rows_of(world.table(kafka_topic.name)) == 0


def test_a_record_from_the_future_lands_without_failing_the_run(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    # The broker allows an hour; the next full hour is never further away.
    now = datetime.now(UTC)
    next_hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    world = world_of(topics={kafka_topic.name: TopicOptions(window="hour")})
    window = current_window(world.topic(kafka_topic.name))
    send(kafka_topic, 2, now)
    send(kafka_topic, 3, next_hour)

    run = world.launch(kafka_topic.name, window=window)

    assert run.success
    assert rows_of(world.table(kafka_topic.name)) == 5
    # A window that does not exist yet cannot be reported; the rows wait there for it.
    assert set(materializations(run)) == {window}
    about = materializations(run)[window]
    assert (about["dagster/row_count"], about["dagster/partition_row_count"]) == (5, 2)


# ---- faults ----


def test_a_topic_that_fails_does_not_stop_the_others_of_its_run(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send_bytes([b"nobody registered a schema for this"])
    send(other_topic, 3, datetime.now(UTC))
    world = world_of(kafka_topic.name, other_topic.name)

    run = world.launch(kafka_topic.name, other_topic.name, raise_on_error=False)

    assert not run.success
    failed = [event for event in run.all_events if event.is_step_failure]
    prefix = world.key(kafka_topic.name).to_python_identifier()
    assert [event.step_key for event in failed] == [f"{prefix}.plan"]
    # The log shows the next step, not only that it went wrong.
    assert "Register the topic's value schema" in str(failed[0].step_failure_data.error)
    assert rows_of(world.table(other_topic.name)) == 3
    check = evaluation(run, "exactly_once")
    assert (check.asset_key, check.passed) == (world.key(other_topic.name), True)


def test_a_table_that_a_stranger_wrote_to_fails_its_run_and_stays_as_it_is(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 2, datetime.now(UTC))
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    append_as_a_stranger(world.table(kafka_topic.name))
    send(kafka_topic, 2, datetime.now(UTC))

    run = world.launch(kafka_topic.name, raise_on_error=False)

    (failure,) = (event for event in run.all_events if event.is_step_failure)
    assert "was not written by Tableflow Assets" in str(failure.step_failure_data.error)
    assert rows_of(world.table(kafka_topic.name)) == 4


@pytest.mark.parametrize(
    "launch",
    [
        pytest.param(lambda world, _: world.run_job("verify"), id="the verify job"),
        pytest.param(lambda world, topic: world.launch(topic.name), id="a run of the table"),
    ],
)
def test_the_exactly_once_check_fails_where_rows_are_duplicated(
    world_of: MakeWorld,
    kafka_topic: KafkaTopic,
    launch: Callable[[DagsterWorld, KafkaTopic], ExecuteInProcessResult],
) -> None:
    for partition in (0, 1):
        send(kafka_topic, 2, datetime.now(UTC), partition=partition)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    assert duplicate_rows(world.table(kafka_topic.name)) == 4

    check = evaluation(launch(world, kafka_topic), "exactly_once")
    assert not check.passed
    assert check.severity == dg.AssetCheckSeverity.ERROR
    found = {name: value.value for name, value in check.metadata.items()}
    assert (found["records"], found["missing"], found["duplicated"]) == (4, 0, 4)


def test_the_exactly_once_check_fails_where_only_one_partition_has_duplicates(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    """The partitions' results differ then: one names its first duplicate, the other has none."""
    send(kafka_topic, 4, datetime.now(UTC), partition=0)
    send(kafka_topic, 4, datetime.now(UTC), partition=1)
    world = world_of(kafka_topic.name)
    world.launch(kafka_topic.name)
    duplicate_rows(world.table(kafka_topic.name), where="_kafka.partition = 1")

    check = evaluation(world.run_job("verify"), "exactly_once")

    assert not check.passed
    found = {name: value.value for name, value in check.metadata.items()}
    assert (found["records"], found["missing"], found["duplicated"]) == (8, 0, 4)
    by_partition = [record.data for record in found["partitions"].records]
    assert [partition["duplicated"] for partition in by_partition] == [0, 4]


def test_the_verify_job_compares_the_whole_log_not_only_the_newest_commit(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    world = world_of(kafka_topic.name)
    for count in (3, 2):
        send(kafka_topic, count, datetime.now(UTC))
        run = world.launch(kafka_topic.name)

    of_run = evaluation(run, "exactly_once")
    of_job = evaluation(world.run_job("verify"), "exactly_once")

    assert (of_run.metadata["records"].value, of_job.metadata["records"].value) == (2, 5)
    assert (of_run.passed, of_job.passed) == (True, True)


def test_the_verify_job_passes_where_there_is_no_table_yet(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    check = evaluation(world_of(kafka_topic.name).run_job("verify"), "exactly_once")
    assert check.passed
    assert check.metadata["partitions"].value == "no table yet"
