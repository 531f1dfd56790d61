"""Windows read from the log again: their rows are replaced, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tableflow_assets.base.errors import CommitConflict, RebuildFailed, Suspended
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.pipeline import NOTHING, Pipeline
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    compared,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
TUESDAY, WEDNESDAY = MONDAY + DAY, MONDAY + 2 * DAY


def send_at(topic: KafkaTopic, moments: Iterable[datetime], first: int = 0) -> None:
    """One payment each, numbered, all in partition 0."""
    for number, moment in enumerate(moments, first):
        stamp = int(moment.timestamp() * 1000)
        topic.send(PAYMENT, payments(1, number), partition=0, timestamp=stamp)


def lose_rows(pipeline: Pipeline, where: str) -> None:
    """As a fault would that the ledger knows nothing of."""
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    nothing_new = replace(entry, kind="window", start=entry.end)
    table.delete(where, snapshot_properties={PROPERTY: nothing_new.to_property()})
    assert sum(result.missing for result in compared(pipeline)) > 0


def files_of(pipeline: Pipeline) -> dict[Any, set[str]]:
    """By window: the date, or the hours since 1970."""
    files: dict[Any, set[str]] = {}
    for task in table_of(pipeline).scan().plan_files():
        files.setdefault(task.file.partition[0], set()).add(task.file.file_path)
    return files


def unchanged(before: dict[Any, set[str]], after: dict[Any, set[str]]) -> int:
    """In how many windows no file was added or removed."""
    assert before.keys() == after.keys()
    return sum(before[window] == after[window] for window in before)


def test_a_window_is_replaced_by_what_the_log_has_of_it_and_other_windows_keep_their_files(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY, MONDAY + HOUR, TUESDAY - timedelta(milliseconds=1)])
    kafka_topic.send_bytes([b"bad"], partition=0, timestamp=int(MONDAY.timestamp() * 1000))
    # One of Monday comes late, after those of other days.
    send_at(kafka_topic, [TUESDAY, WEDNESDAY, MONDAY + 2 * HOUR, TUESDAY + HOUR], first=3)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    before, letters, files = rows_of(pipeline), letters_of(pipeline), files_of(pipeline)
    lose_rows(pipeline, "id = 1 OR id = 5")
    committed = rebuild_windows(pipeline, MONDAY, TUESDAY, "the-run")
    assert (committed.rows, committed.dead_letters, committed.snapshots) == (
        4,
        0,
        (head_of(pipeline),),
    )
    assert rows_of(pipeline) == before
    assert letters_of(pipeline) == letters
    assert unchanged(files, files_of(pipeline)) == 2
    entry = read_ledger(table_of(pipeline)).entry
    assert (entry.kind, entry.run_id, entry.end) == ("window", "the-run", {0: 8, 1: 0})
    assert branches_of(pipeline) == []
    verified(pipeline)
    # Once more changes nothing, and the next run goes on.
    rebuild_windows(pipeline, MONDAY, TUESDAY)
    assert rows_of(pipeline) == before
    send_at(kafka_topic, [MONDAY], first=7)
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_a_window_of_an_hour_is_replaced_alone(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    minutes = (0, 59, 60, 119, 120)
    send_at(kafka_topic, [MONDAY + timedelta(minutes=minute) for minute in minutes])
    pipeline = pipeline_of(tableflow, kafka_topic, window="hour")
    pipeline.catch_up()
    before, files = rows_of(pipeline), files_of(pipeline)
    lose_rows(pipeline, "id = 2")
    assert rebuild_windows(pipeline, MONDAY + HOUR, MONDAY + 2 * HOUR).rows == 2
    assert rows_of(pipeline) == before
    assert unchanged(files, files_of(pipeline)) == 2
    verified(pipeline)


def test_the_first_window_has_all_that_is_older(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY - 9 * DAY, MONDAY, TUESDAY, MONDAY - DAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    lose_rows(pipeline, "id != 2")
    assert rebuild_windows(pipeline, None, TUESDAY).rows == 3
    assert ids_of(pipeline) == [0, 1, 2, 3]
    verified(pipeline)


def test_a_window_without_records_stays_without_rows(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY, WEDNESDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert rebuild_windows(pipeline, TUESDAY, WEDNESDAY).rows == 0
    assert rebuild_windows(pipeline, MONDAY + 8 * DAY, MONDAY + 9 * DAY) == NOTHING
    assert ids_of(pipeline) == [0, 1]
    verified(pipeline)


def test_records_that_the_table_has_not_read_yet_are_left_to_the_next_run(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    send_at(kafka_topic, [MONDAY + HOUR], first=1)
    assert rebuild_windows(pipeline, MONDAY, TUESDAY).rows == 1
    assert ids_of(pipeline) == [0]
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


# --- what cannot be rebuilt -------------------------------------------------------------------


def assert_refused(pipeline: Pipeline, start: datetime | None, end: datetime, why: str) -> None:
    rows, head = rows_of(pipeline), head_of(pipeline)
    with pytest.raises(RebuildFailed, match=why):
        rebuild_windows(pipeline, start, end)
    assert (rows_of(pipeline), head_of(pipeline)) == (rows, head)
    assert branches_of(pipeline) == []


def test_rows_that_the_log_no_longer_has_stay(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY, MONDAY + HOUR, TUESDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete_records_before(partition=0, offset=1)
    why = "would lose 1 rows: the log of partition 0 begins at offset 1, so it no longer holds all"
    assert_refused(pipeline, MONDAY, TUESDAY, why)
    assert_refused(pipeline, None, WEDNESDAY, why)
    # Those that are still there can be.
    assert rebuild_windows(pipeline, TUESDAY, WEDNESDAY).rows == 1
    assert ids_of(pipeline) == [0, 1, 2]
    verified(pipeline)


def test_a_topic_that_was_created_again_has_none_of_the_windows_records(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY, TUESDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    send_at(kafka_topic, [MONDAY, TUESDAY], first=50)
    with pytest.raises(Suspended, match="deleted and created again"):
        rebuild_windows(pipeline, MONDAY, TUESDAY)
    assert ids_of(pipeline) == [0, 1]


def test_a_table_with_keys_has_no_windows_of_its_own(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), key=b"a", timestamp=int(MONDAY.timestamp() * 1000))
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert_refused(pipeline, MONDAY, TUESDAY, "has one row per key")


def test_an_hour_of_a_table_made_of_days_is_refused(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, [MONDAY, MONDAY + HOUR])
    pipeline_of(tableflow, kafka_topic, window="day").catch_up()
    pipeline = pipeline_of(tableflow, kafka_topic, window="hour")
    assert_refused(pipeline, MONDAY, MONDAY + HOUR, "hold more than one hour each")
    assert rebuild_windows(pipeline, MONDAY, TUESDAY).rows == 2


def test_a_run_that_commits_meanwhile_makes_the_rebuild_give_way(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_at(kafka_topic, [MONDAY])
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    send_at(kafka_topic, [MONDAY + HOUR], first=1)
    commit_branch = commits.commit_branch

    def too_late(*arguments: Any, **options: Any) -> int:
        monkeypatch.setattr(commits, "commit_branch", commit_branch)
        assert pipeline.catch_up().rows == 1
        return commit_branch(*arguments, **options)

    monkeypatch.setattr(commits, "commit_branch", too_late)
    with pytest.raises(CommitConflict):
        rebuild_windows(pipeline, MONDAY, TUESDAY)
    assert ids_of(pipeline) == [0, 1]
    assert branches_of(pipeline) == []
    assert rebuild_windows(pipeline, MONDAY, TUESDAY).rows == 2
    verified(pipeline)


# --- days are those of UTC --------------------------------------------------------------------


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process in a time zone of its own, whose clocks change."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_elsewhere")
def test_a_day_on_which_clocks_change_is_a_day_like_others(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    instant = timedelta(milliseconds=1)
    days = [
        datetime(change.year, change.month, change.day, tzinfo=UTC)
        for change in (date(2024, 3, 31), date(2024, 10, 27))
    ]
    inside = [timedelta(0), HOUR - instant, HOUR, 2 * HOUR, 23 * HOUR, DAY - instant]
    for number, day in enumerate(days):
        moments = [day - instant, *(day + after for after in inside), day + DAY]
        send_at(kafka_topic, moments, first=10 * number)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    before, files = rows_of(pipeline), files_of(pipeline)
    assert len(files) == 6  # of each change: the day, the one before and the one after
    lose_rows(pipeline, "(id > 0 AND id < 7) OR (id > 10 AND id < 17)")
    for day in days:
        assert rebuild_windows(pipeline, day, day + DAY).rows == len(inside)
    assert rows_of(pipeline) == before
    assert unchanged(files, files_of(pipeline)) == 4
    verified(pipeline)
