"""Retention: windows that are old enough go, whole, and nothing brings them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tableflow_assets.base import boundary
from tableflow_assets.base.errors import ModeChanged, RebuildFailed, SettingsError, Suspended
from tableflow_assets.operate.oldest_kept import oldest_kept
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.operate.replay import find, replay
from tableflow_assets.operate.retention import Dropped, OldWindow, drop_old_windows
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.stack import connections
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import DroppedBefore, read_ledger
from tableflow_assets.table.letters.read import letters_of as letters_that_count
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.late_schema import Late
from tableflow_assets_tests.support.tables import (
    Interruption,
    branches_of,
    compared,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    table_of,
    verified,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MONDAY = datetime(2024, 1, 1, tzinfo=UTC)
TUESDAY, WEDNESDAY, THURSDAY = MONDAY + DAY, MONDAY + 2 * DAY, MONDAY + 3 * DAY
ON_WEDNESDAY, ON_THURSDAY = WEDNESDAY + 5 * HOUR, THURSDAY + 5 * HOUR


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def send_at(topic: KafkaTopic, moments: Iterable[datetime], first: int = 0) -> None:
    """One payment each, numbered, all in partition 0."""
    for number, moment in enumerate(moments, first):
        stamp = milliseconds(moment)
        topic.send(PAYMENT, payments(1, number), partition=0, timestamp=stamp)


def landed(tableflow: Tableflow, topic: KafkaTopic, **options: Any) -> Pipeline:
    """Ids 0 and 1 of Monday, 2 of Tuesday, 3 of Wednesday; what is kept is a day."""
    send_at(topic, [MONDAY, TUESDAY - timedelta(milliseconds=1), TUESDAY, WEDNESDAY])
    pipeline = pipeline_of(tableflow, topic, **({"retention": DAY} | options))
    pipeline.catch_up()
    return pipeline


def files_of(pipeline: Pipeline) -> set[str]:
    return {task.file.file_path for task in table_of(pipeline).scan().plan_files()}


def standing(pipeline: Pipeline) -> tuple[int, int, int]:
    """Of partition 0: rows, dead letters and dropped records, of which nothing is wrong."""
    result = verified(pipeline)[0]
    return result.rows, result.dead_letters, result.dropped


def roll_back_to(pipeline: Pipeline, snapshot: int) -> None:
    table_of(pipeline).manage_snapshots().rollback_to_snapshot(snapshot).commit()


def expire_all_but_the_newest(pipeline: Pipeline) -> None:
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.expire_snapshots("
        f"table => '{pipeline.catalog.namespace}.{pipeline.topic.table}',"
        " older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    ).collect()


@contextmanager
def meanwhile(do: Callable[[], object]) -> Iterator[None]:
    """Something else happens, once, when all is written and only the commit is left."""

    def listener(reached: boundary.Boundary) -> None:
        if reached == "files_written":
            boundary.listen(None)
            do()

    boundary.listen(listener)
    try:
        yield
    finally:
        boundary.listen(None)


# --- when -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "retention", "now", "expected"),
    [
        ("day", DAY, ON_WEDNESDAY, TUESDAY),
        ("day", DAY, WEDNESDAY, TUESDAY),  # all of Monday is a day old, not more
        ("day", DAY, WEDNESDAY - timedelta(microseconds=1), MONDAY),
        ("day", 5 * HOUR, WEDNESDAY + 4 * HOUR, TUESDAY),
        ("hour", DAY, ON_WEDNESDAY + timedelta(minutes=59), TUESDAY + 5 * HOUR),
        ("day", timedelta(days=36500), MONDAY, datetime(1924, 1, 26, tzinfo=UTC)),
        ("day", None, ON_WEDNESDAY, None),
    ],
)
def test_only_whole_windows_are_old(
    window: Any, retention: timedelta | None, now: datetime, expected: datetime | None
) -> None:
    assert oldest_kept(Topic(name="t", window=window, retention=retention), now) == expected


# --- what goes --------------------------------------------------------------------------------


def test_old_windows_go_as_whole_files_in_one_commit_and_late_ones_at_the_next_time(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    head, files = head_of(pipeline), files_of(pipeline)
    would = drop_old_windows(pipeline, now=ON_WEDNESDAY, dry_run=True)
    assert (would.is_done, would.rows, head_of(pipeline)) == (False, 2, head)

    report = drop_old_windows(pipeline, run_id="r1", now=ON_WEDNESDAY)

    windows = (OldWindow(MONDAY, 2),)
    assert report == Dropped(kafka_topic.name, TUESDAY, True, windows, 1, 0, 0, head_of(pipeline))
    assert ids_of(pipeline) == [2, 3]
    assert files_of(pipeline) < files
    entry = read_ledger(table_of(pipeline)).entry
    assert (entry.kind, entry.run_id, entry.end) == ("retention", "r1", {0: 4, 1: 0})
    assert entry.dropped == (DroppedBefore(milliseconds(TUESDAY), {0: 4, 1: 0}),)
    assert branches_of(pipeline) == []
    result = verified(pipeline)[0]
    assert (result.records, result.expected, result.rows, result.dropped) == (4, 2, 2, 2)
    # There is nothing more to do, so nothing is committed.
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY).is_nothing
    assert head_of(pipeline) == report.snapshot

    send_at(kafka_topic, [MONDAY + HOUR], first=4)
    assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [2, 3, 4]
    assert verified(pipeline)[0].dropped == 2
    later = drop_old_windows(pipeline, now=ON_THURSDAY)
    assert later.windows == (OldWindow(MONDAY, 1), OldWindow(TUESDAY, 1))
    assert ids_of(pipeline) == [3]
    assert verified(pipeline)[0].dropped == 4
    # One pair says it all: it covers the first.
    entry = read_ledger(table_of(pipeline)).entry
    assert entry.dropped == (DroppedBefore(milliseconds(WEDNESDAY), {0: 5, 1: 0}),)


def test_a_file_that_also_holds_newer_rows_is_rewritten(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """The table was made of days, and now its windows are hours."""
    minutes = (0, 59, 60, 120)
    send_at(kafka_topic, [MONDAY + timedelta(minutes=minute) for minute in minutes])
    pipeline_of(tableflow, kafka_topic).catch_up()
    pipeline = pipeline_of(tableflow, kafka_topic, window="hour", retention=HOUR)
    before = files_of(pipeline)
    report = drop_old_windows(pipeline, now=MONDAY + 3 * HOUR + timedelta(minutes=30))
    assert report.windows == (OldWindow(MONDAY, 2), OldWindow(MONDAY + HOUR, 1))
    assert report.files == len(before) == 1
    assert ids_of(pipeline) == [3]
    assert not files_of(pipeline) & before
    assert verified(pipeline)[0].dropped == 3


def test_records_that_the_log_has_lost_are_dropped_too(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    kafka_topic.delete_records_before(partition=0, offset=3)
    assert verified(pipeline)[0].unproven == 3
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    result = verified(pipeline)[0]
    assert (result.dropped, result.unproven, result.start) == (0, 1, 3)


# --- what does not ----------------------------------------------------------------------------


def test_without_retention_or_a_table_there_is_nothing_to_drop(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, retention=DAY)
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY) == Dropped(kafka_topic.name, TUESDAY)
    pipeline = landed(tableflow, kafka_topic, retention=None)
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY) == Dropped(kafka_topic.name)
    assert ids_of(pipeline) == [0, 1, 2, 3]


def test_rows_of_keys_do_not_age(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    stamp = milliseconds(MONDAY)
    kafka_topic.send(PAYMENT, payments(1), key=b"a", partition=0, timestamp=stamp)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", retention=DAY)
    pipeline.catch_up()
    with pytest.raises(SettingsError, match="the rows of keys do not age"):
        drop_old_windows(pipeline, now=ON_WEDNESDAY)
    # Nor where the settings have changed, and the table has not yet.
    with pytest.raises(ModeChanged):
        drop_old_windows(pipeline_of(tableflow, kafka_topic, retention=DAY), now=ON_WEDNESDAY)
    assert ids_of(pipeline) == [0]


# --- other writers, and the end of the process ------------------------------------------------


def test_a_run_that_commits_meanwhile_goes_first(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    send_at(kafka_topic, [MONDAY, WEDNESDAY], first=4)
    with meanwhile(pipeline.catch_up):
        report = drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert report.windows == (OldWindow(MONDAY, 3),)
    assert ids_of(pipeline) == [2, 3, 5]
    assert branches_of(pipeline) == []
    assert verified(pipeline)[0].dropped == 3


def test_retention_that_commits_meanwhile_makes_a_run_plan_again(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    send_at(kafka_topic, [MONDAY], first=4)
    with meanwhile(lambda: drop_old_windows(pipeline, now=ON_WEDNESDAY)):
        assert pipeline.catch_up().rows == 1
    assert ids_of(pipeline) == [2, 3, 4]
    assert verified(pipeline)[0].dropped == 2


def test_killed_before_it_is_published_nothing_has_happened(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = landed(tableflow, kafka_topic)

    def end() -> None:
        raise Interruption

    with monkeypatch.context() as patch, meanwhile(end), pytest.raises(Interruption):
        patch.setattr(commits, "drop_branch", lambda *_: None)  # nobody tidies up after a kill
        drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert (len(branches_of(pipeline)), ids_of(pipeline)) == (1, [0, 1, 2, 3])
    assert verified(pipeline)[0].dropped == 0
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert ids_of(pipeline) == [2, 3]
    verified(pipeline)


# --- ways back --------------------------------------------------------------------------------


def test_a_window_that_was_dropped_is_not_rebuilt(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    with pytest.raises(RebuildFailed, match=r"before 2024-01-02 00:00 \(UTC\)"):
        rebuild_windows(pipeline, MONDAY, TUESDAY)
    send_at(kafka_topic, [MONDAY + HOUR], first=4)  # late, so not dropped yet
    pipeline.catch_up()
    # Of several windows, what was not dropped is read again.
    assert rebuild_windows(pipeline, None, WEDNESDAY).rows == 2
    assert ids_of(pipeline) == [2, 3, 4]
    assert verified(pipeline)[0].dropped == 2


def test_a_rebuild_brings_back_what_the_log_has_until_the_next_time(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    rebuild(pipeline)
    assert ids_of(pipeline) == [0, 1, 2, 3]
    assert verified(pipeline)[0].dropped == 0
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert ids_of(pipeline) == [2, 3]
    assert verified(pipeline)[0].dropped == 2


def test_a_suspended_topic_keeps_its_rows(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    pipeline = landed(tableflow, kafka_topic)
    table_of(pipeline).delete("id = 3")  # by somebody else
    with pytest.raises(Suspended):
        drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert ids_of(pipeline) == [0, 1, 2]


# --- dead letters -----------------------------------------------------------------------------


@pytest.fixture
def late(kafka_topic: KafkaTopic, session_settings: Settings) -> Late:
    return Late(kafka_topic, connections.registry_address(session_settings))


def with_letters(tableflow: Tableflow, late: Late) -> Pipeline:
    """As ``landed``; and letters 10 of Monday and 11 of Wednesday, readable from now on."""
    pipeline = landed(tableflow, late.topic)
    late.send(10, timestamp=milliseconds(MONDAY))
    late.send(11, timestamp=milliseconds(WEDNESDAY))
    assert pipeline.catch_up().dead_letters == 2
    late.register()
    return pipeline


def test_letters_of_old_windows_are_neither_counted_nor_listed_nor_replayed(
    tableflow: Tableflow, late: Late
) -> None:
    pipeline = with_letters(tableflow, late)
    before = head_of(pipeline)
    report = drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert (report.rows, report.dead_letters, report.letters_deleted) == (2, 1, 0)
    assert standing(pipeline) == (2, 1, 3)
    letters = letters_that_count(pipeline.catalog, pipeline.topic, table_of(pipeline)).listed(9)
    assert [letter["offset"] for letter in letters] == [5]
    assert find(pipeline).letters == 1
    # A rollback brings back all of it: so no letter may be deleted while one is possible.
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY).letters_deleted == 0
    roll_back_to(pipeline, before)
    assert standing(pipeline) == (4, 2, 0)
    # A letter that comes late has no row beside it.
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    late.topic.send_bytes([b"late"], partition=0, timestamp=milliseconds(MONDAY))
    assert pipeline.catch_up().dead_letters == 1
    assert standing(pipeline) == (2, 2, 3)
    report = drop_old_windows(pipeline, now=ON_WEDNESDAY)
    assert (report.rows, report.dead_letters, report.is_done) == (0, 1, True)
    assert standing(pipeline) == (2, 1, 4)
    expire_all_but_the_newest(pipeline)
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY).letters_deleted == 2
    assert [letter["offset"] for letter in letters_of(pipeline)] == [5]
    assert standing(pipeline) == (2, 1, 4)


def test_a_replay_under_way_does_not_bring_back_what_is_dropped_meanwhile(
    tableflow: Tableflow, late: Late
) -> None:
    pipeline = with_letters(tableflow, late)
    with meanwhile(lambda: drop_old_windows(pipeline, now=ON_WEDNESDAY)):
        assert replay(pipeline).letters == 1
    assert ids_of(pipeline) == [2, 3, 11]
    assert verified(pipeline)[0].dropped == 3


# --- verify -----------------------------------------------------------------------------------


def test_rows_that_should_have_gone_are_found(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic)
    row = table_of(pipeline).scan(row_filter="id = 1").to_arrow()
    drop_old_windows(pipeline, now=ON_WEDNESDAY)
    table = table_of(pipeline)
    entry = read_ledger(table).entry
    table.append(row, snapshot_properties={commits.PROPERTY: entry.to_property()})
    for newest_commit_only in (False, True):
        result = compared(pipeline, newest_commit_only=newest_commit_only, sample=5)[0]
        assert (result.ok, result.missing, result.first_unexpected) == (False, 0, 1)
    # By the row's own timestamp, where the log has no record of it any more.
    kafka_topic.delete_records_before(partition=0, offset=3)
    result = compared(pipeline, sample=5)[0]
    assert (result.ok, result.unexpected, result.first_unexpected) == (False, 1, 1)
    # The next time mends it.
    assert drop_old_windows(pipeline, now=ON_WEDNESDAY).windows == (OldWindow(MONDAY, 1),)
    assert [result.ok for result in compared(pipeline, sample=5)] == [True, True]
    assert ids_of(pipeline) == [2, 3]
