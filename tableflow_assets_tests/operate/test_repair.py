"""`repair`: what is wrong is found, told, and mended where the log or the Iceberg table can tell."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.repair import repair
from tableflow_assets.operate.repair_windows import Span
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of, verified

DAY = timedelta(days=1)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
TUESDAY, WEDNESDAY = MONDAY + DAY, MONDAY + 2 * DAY


def send_at(topic: KafkaTopic, moments: Iterable[datetime], first: int = 0) -> None:
    for number, moment in enumerate(moments, first):
        stamp = int(moment.timestamp() * 1000)
        topic.send(PAYMENT, payments(1, number), key=b"k", partition=0, timestamp=stamp)


def store_of(pipeline: Pipeline) -> Store:
    return store_at(delta_root(table_of(pipeline)), pipeline.catalog.storage)


def files_with(pipeline: Pipeline, where: str) -> list[str]:
    return [task.file.file_path for task in table_of(pipeline).scan(where).plan_files()]


def lose(pipeline: Pipeline, where: str) -> list[str]:
    files = files_with(pipeline, where)
    assert files
    root = delta_root(table_of(pipeline)) + "/"
    store_of(pipeline).delete([path.removeprefix(root) for path in files])
    return files


def assert_sound(pipeline: Pipeline) -> None:
    verified(pipeline)
    compared = compare(pipeline.catalog, table_of(pipeline), patience=0)
    assert compared.ok, compared.findings
    repaired = repair(pipeline)
    assert (repaired.steps, repaired.left) == ([], [])


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Rows of three days, in a file each."""
    send_at(kafka_topic, [MONDAY, TUESDAY, WEDNESDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


def test_rows_of_lost_files_are_read_from_the_log_again(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    files = lose(pipeline, "id = 0") + lose(pipeline, "id = 2")
    head = head_of(pipeline)
    dry = repair(pipeline, dry_run=True)
    assert head_of(pipeline) == head
    assert [step.is_done for step in dry.steps] == [False, False]
    problems: list[str] = []
    only = repair(
        pipeline, only=Span(MONDAY, TUESDAY), on_step=lambda step: problems.append(step.problem)
    )
    assert [(files[0] in text, "is not in the store" in text) for text in problems] == [
        (True, True)
    ]
    assert len(only.steps) == 1
    repaired = repair(pipeline, run_id="the-run")
    assert [(step.is_done, "2024-01-03 00:00 to" in step.remedy) for step in repaired.steps] == [
        (True, True)
    ]
    assert repaired.ok
    assert ids_of(pipeline) == [0, 1, 2]
    assert_sound(pipeline)
    send_at(kafka_topic, [MONDAY], first=3)
    assert pipeline.catch_up().rows == 1
    assert_sound(pipeline)


def test_records_that_the_log_no_longer_has_are_named_and_nothing_is_done(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    files = lose(pipeline, "id <= 1")
    kafka_topic.delete_records_before(partition=0, offset=1)
    repaired = repair(pipeline)
    assert [lost_one in repaired.steps[0].problem for lost_one in files].count(True) == 1
    (open_problem,) = repaired.left
    assert "no longer holds offsets 0 to 0 of partition 0" in open_problem.problem
    assert f"tableflow rebuild {kafka_topic.name}" in open_problem.next_step
    assert not repaired.ok
    assert len(files_with(pipeline, "id = 0")) == 1  # it is still known what is missing


def test_a_file_of_a_longer_window_is_replaced_with_all_of_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """The topic had windows of days, and has hours now: files of both are in the table."""
    hour = timedelta(hours=1)
    send_at(kafka_topic, [MONDAY, MONDAY + hour])
    pipeline_of(tableflow, kafka_topic, window="day").catch_up()
    pipeline = pipeline_of(tableflow, kafka_topic, window="hour")
    send_at(kafka_topic, [MONDAY + hour, TUESDAY, TUESDAY + hour], first=2)
    pipeline.catch_up()
    other_files = files_with(pipeline, "id = 4")
    lose(pipeline, "id = 2 OR id = 3")
    repaired = repair(pipeline)
    assert [step.remedy.partition(" of ")[2].partition(" (UTC)")[0] for step in repaired.steps] == [
        "2024-01-01 00:00 to 2024-01-02 00:00",
        "2024-01-02 00:00 to 2024-01-02 01:00",
    ]
    assert repaired.ok, repaired.left
    assert files_with(pipeline, "id = 4") == other_files
    assert ids_of(pipeline) == [0, 1, 2, 3, 4]
    assert_sound(pipeline)


def test_a_table_that_is_not_laid_out_by_windows_is_to_be_built_anew(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, partition_by=("bucket(2, id)",))
    send_at(kafka_topic, [MONDAY, TUESDAY])
    pipeline.catch_up()
    (file,) = lose(pipeline, "id = 0")
    (open_problem,) = repair(pipeline).left
    assert file in open_problem.problem
    assert f"tableflow rebuild {kafka_topic.name}" in open_problem.next_step


def test_a_table_with_keys_is_to_be_built_anew_and_can_be(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    send_at(kafka_topic, [MONDAY, TUESDAY])
    pipeline.catch_up()
    (file,) = lose(pipeline, "id = 1")
    (open_problem,) = repair(pipeline).left
    assert file in open_problem.problem
    assert f"tableflow rebuild {kafka_topic.name}" in open_problem.next_step
    rebuild(pipeline)
    assert ids_of(pipeline) == [1]
    assert_sound(pipeline)


def test_a_delta_log_that_is_wrong_is_mended_and_one_too_many_removed(pipeline: Pipeline) -> None:
    store, table = store_of(pipeline), table_of(pipeline)
    newest = upkeep.mirror_status(pipeline.catalog, table).version
    store.put(f"_delta_log/{newest:020d}.json", b"{")
    repaired = repair(pipeline)
    assert [step.is_done for step in repaired.steps] == [True]
    assert f"{newest:020d}.json" in repaired.steps[0].problem
    assert_sound(pipeline)
    with table.transaction() as transaction:
        transaction.set_properties({"tableflow.formats": "iceberg"})
    assert "Remove the Delta log" in repair(pipeline).steps[0].remedy
    assert store.names("_delta_log") == []
    assert repair(pipeline).steps == []


def test_what_somebody_else_wrote_to_the_table_is_told_and_left(pipeline: Pipeline) -> None:
    table = table_of(pipeline)
    rows: pa.Table = table.scan("id = 1").to_arrow()
    table.append(rows)
    head = head_of(pipeline)
    repaired = repair(pipeline)
    (open_problem,) = repaired.left
    assert "was not written by Tableflow Assets" in open_problem.problem
    assert "Roll the table back" in open_problem.next_step
    assert head_of(pipeline) == head
    # Both formats show the same, whoever wrote it.
    assert [step.remedy for step in repaired.steps] == ["Write the versions that are missing."]
    assert compare(pipeline.catalog, table_of(pipeline), rows=True, patience=0).ok
