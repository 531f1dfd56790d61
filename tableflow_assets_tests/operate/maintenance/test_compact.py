"""Compaction: which windows, and what stays the same, also while others write."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tableflow_assets.base.errors import LedgerError, MaintenanceFailed
from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.health import Health, health
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.lifecycle import mirror_status
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.operate.maintenance.conftest import at_day, commit_days, commit_keys
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)

pytestmark = pytest.mark.usefixtures("two_are_many")


def health_of(pipeline: Pipeline) -> Health:
    return health(pipeline.catalog, pipeline.topic)


def files_of(pipeline: Pipeline) -> dict[str, int]:
    return {window.name: window.files for window in health_of(pipeline).windows}


def is_mirrored(pipeline: Pipeline) -> bool:
    return mirror_status(pipeline.catalog, table_of(pipeline)).behind == 0


def test_windows_that_need_it_are_compacted_and_the_newest_is_left_alone(
    by_day: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_days(by_day, kafka_topic, 1, 0, 1, 3)
    commit_days(by_day, kafka_topic, 1, 0, 1, 2, 3)
    assert list(files_of(by_day).values()) == [2, 2, 1, 2]
    before, head, ledger = rows_of(by_day), head_of(by_day), read_ledger(table_of(by_day))
    dry_run = compact(by_day, dry_run=True)
    assert dry_run.windows == ("2024-01-01", "2024-01-02")
    assert dry_run.why == ("2 small files would be 1",) * 2
    assert head_of(by_day) == head

    report = compact(by_day)
    assert (report.windows, report.files_before, report.files_after) == (dry_run.windows, 4, 2)
    assert report.bytes > 0
    assert list(files_of(by_day).values()) == [1, 1, 1, 2]
    assert "compact" not in health_of(by_day).kinds
    assert rows_of(by_day) == before
    assert read_ledger(table_of(by_day)).entry == ledger.entry
    assert is_mirrored(by_day)

    compact(by_day, include_newest=True)
    assert set(files_of(by_day).values()) == {1}
    assert (
        compact(by_day, windows=["2024-01-03"]).files_before == 0
    )  # one file is as good as it gets
    with pytest.raises(MaintenanceFailed, match="no window '2024-02-01'"):
        compact(by_day, windows=["2024-02-01"])
    assert rows_of(by_day) == before
    verified(by_day)


def test_dead_rows_go_out_of_the_files_and_their_marks_with_them(
    keyed: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_keys(keyed, kafka_topic, 2)
    assert sum(window.dead_rows for window in health_of(keyed).windows) == 4
    before = rows_of(keyed)
    report = compact(keyed)
    assert (report.files_after, report.delete_files_removed) == (2, 2)
    after = health_of(keyed).windows
    assert [(w.name, w.files, w.dead_rows, w.delete_files) for w in after] == [
        ("bucket 0", 1, 0, 0),
        ("bucket 1", 1, 0, 0),
    ]
    assert sum(window.rows for window in after) == 4
    assert rows_of(keyed) == before
    assert is_mirrored(keyed)
    commit_keys(keyed, kafka_topic, 1)  # the next change finds its key in the files of now
    verified(keyed)


def test_delete_files_are_merged_where_few_rows_are_dead(
    keyed: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tableflow_assets.operate.maintenance.health.DELETE_FILES", 1)
    commit_keys(keyed, kafka_topic, 1, keys=40)
    commit_keys(keyed, kafka_topic, 2, keys=2)
    windows = [window for window in health_of(keyed).windows if window.delete_files]
    assert {window.remedy for window in windows} == {"pack"}
    assert all("2 delete files" in window.why for window in windows)
    rows = rows_of(keyed)
    # As where the files with the rows are large enough.
    monkeypatch.setattr(
        "tableflow_assets.operate.maintenance.compact._batches", lambda *_, **__: ()
    )
    assert compact(keyed).delete_files_removed == len(windows)
    assert {w.delete_files for w in health_of(keyed).windows if w.delete_files} == {1}
    assert rows_of(keyed) == rows
    assert is_mirrored(keyed)
    commit_keys(keyed, kafka_topic, 1)
    verified(keyed)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_writer_at_the_same_time_loses_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode, key_buckets=2)
    commit_keys(pipeline, kafka_topic, 2)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            commit_keys(pipeline, kafka_topic, 3)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    compactions = 0
    while writer.is_alive():
        names = [window.name for window in health_of(pipeline).windows]
        compactions += compact(pipeline, windows=names).files_before > 0
    writer.join()
    assert not failures
    assert compactions > 0
    assert len(ids_of(pipeline)) == (20 if mode == "append" else 4)
    verified(pipeline)
    assert is_mirrored(pipeline)


def test_files_of_an_older_layout_get_the_new_one(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    old = pipeline_of(tableflow, kafka_topic)
    commit_days(old, kafka_topic, 2, 0)
    new = pipeline_of(tableflow, kafka_topic, partition_by=("window", "bucket(2, id)"))
    kafka_topic.send(PAYMENT, payments(8, first=10), timestamp=at_day(0))
    new.catch_up()
    assert files_of(new) == {"2024-01-01": 4}
    before = rows_of(new)
    compact(new, windows=["2024-01-01"])
    files = [task.file for task in table_of(new).scan().plan_files()]
    assert {file.spec_id for file in files} == {table_of(new).spec().spec_id}
    assert rows_of(new) == before
    verified(new)


def test_rows_are_put_in_order_by_columns_of_any_name(
    by_day: Pipeline, kafka_topic: KafkaTopic
) -> None:
    hostile = "a'b \\ c"  # no SQL survives it unquoted
    commit_days(by_day, kafka_topic, 2, 0, 1)
    with table_of(by_day).update_schema() as update:
        update.rename_column("amount", hostile)
    before = rows_of(by_day)
    report = compact(by_day, strategy=f"zorder(id, `{hostile}`)", windows=["2024-01-01"])
    assert (report.files_before, report.files_after) == (2, 1)
    options = {"sort_by": (f"`{hostile}` desc", "_kafka.offset"), "compaction": "sort"}
    sorting = replace(by_day, spec=by_day.topic.model_copy(update=options))
    assert compact(sorting, windows=["2024-01-02"]).files_after == 1
    assert rows_of(by_day) == before
    of_first_day, of_second = (
        [row["id"] for row in table_of(by_day).scan(days).to_arrow().to_pylist()]
        for days in ("id < 100", "id >= 100")
    )
    assert of_first_day == [0, 1]
    assert of_second == [101, 100]


def test_a_table_that_somebody_else_has_changed_stays_as_it_is(
    by_day: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_days(by_day, kafka_topic, 1, 0)
    table = table_of(by_day)
    table.append(table.scan().to_arrow())
    head = head_of(by_day)
    with pytest.raises(LedgerError):
        compact(by_day, windows=["2024-01-01"])
    assert head_of(by_day) == head


def test_dead_letters_become_few_files_too(
    by_day: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_a_letter(partition: int) -> None:
        kafka_topic.send_bytes([b"no Avro"], partition=partition)
        by_day.catch_up()

    commit_days(by_day, kafka_topic, 1, 0)
    assert health_of(by_day).letters is None
    for partition in (1, 0, 1):
        commit_a_letter(partition)
    state = health_of(by_day).letters
    assert state is not None
    assert (state.files, state.rows, state.remedy) == (3, 3, "")  # not worth it yet
    monkeypatch.setattr("tableflow_assets.operate.maintenance.health.SMALL_FILES_IN_THE_NEWEST", 3)
    reason = "dead letters: 3 small files would be 1"
    assert health_of(by_day).why("compact") == reason
    letters = letters_of(by_day)
    assert compact(by_day, dry_run=True).windows == ("dead letters",)
    report = compact(by_day)
    assert (report.windows, report.files_before, report.files_after) == (("dead letters",), 3, 1)
    assert letters_of(by_day) == letters
    assert health_of(by_day).kinds == ()
    commit_a_letter(0)
    verified(by_day)
