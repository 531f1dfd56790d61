"""Replay: letters that can be read by now become rows, each exactly once, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tableflow_assets.base import boundary
from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.operate import forget as forgetting
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.operate.replay import find, replay
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.dagster_world import day, milliseconds
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.late_schema import Late
from tableflow_assets_tests.support.tables import (
    Interruption,
    branches_of,
    entries_of,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)


@pytest.fixture
def late(kafka_topic: KafkaTopic, session_settings: Settings) -> Late:
    return Late(kafka_topic, connections.registry_address(session_settings))


@pytest.fixture
def pipeline(tableflow: Tableflow, late: Late) -> Pipeline:
    """Rows 0 and 1, letters 10 to 12 that can be read from now on, and one that never can."""
    late.topic.send(PAYMENT, payments(2), partition=0)
    late.send(10, 11, key="somebody")
    late.send(12, partition=1)
    late.topic.send_bytes([b"nonsense"], partition=1)
    pipeline = pipeline_of(tableflow, late.topic)
    committed = pipeline.catch_up()
    assert (committed.rows, committed.dead_letters) == (2, 4)
    late.register()
    return pipeline


def waiting(pipeline: Pipeline) -> set[tuple[int, int]]:
    """Places of the letters that are no rows, as the ledger tells."""
    replays = read_ledger(table_of(pipeline)).entry.replays
    letters = letters_of(pipeline)
    return {(r["partition"], r["offset"]) for r in letters if r["replay_id"] not in replays}


@contextmanager
def killed_at(name: str, nth: int = 1) -> Iterator[None]:
    """The process ends at the nth time that it gets there."""
    times = 0

    def listener(reached: boundary.Boundary) -> None:
        nonlocal times
        times += reached == name
        if reached == name and times == nth:
            raise Interruption

    boundary.listen(listener)
    try:
        with pytest.raises(Interruption):
            yield
    finally:
        boundary.listen(None)


@contextmanager
def meanwhile(name: str, do: Callable[[], object]) -> Iterator[None]:
    """Something else happens, once, when the replay gets there."""

    def listener(reached: boundary.Boundary) -> None:
        if reached == name:
            boundary.listen(None)
            do()

    boundary.listen(listener)
    try:
        yield
    finally:
        boundary.listen(None)


def test_letters_that_can_be_read_by_now_become_rows_once(pipeline: Pipeline) -> None:
    committed = read_ledger(table_of(pipeline)).committed
    head = head_of(pipeline)
    would = find(pipeline)
    assert (would.letters, would.is_done, head_of(pipeline)) == (3, False, head)

    replayed = replay(pipeline, run_id="replay-1")

    assert (replayed.letters, replayed.unreadable, replayed.is_done) == (
        3,
        {"not_confluent_framed": 1},
        True,
    )
    assert replayed.snapshot == head_of(pipeline)
    rows = {row["id"]: row for row in rows_of(pipeline)}
    assert sorted(rows) == [0, 1, 10, 11, 12]
    assert (rows[11]["note"], rows[11]["amount"], rows[0]["note"]) == ("note 11", 5.5, None)
    assert (rows[11]["_kafka"]["partition"], rows[11]["_kafka"]["offset"]) == (0, 3)
    assert rows[11]["_kafka"]["key"] == b"somebody"
    newest = entries_of(pipeline)[-1]
    assert (newest.kind, newest.run_id, newest.start, newest.end) == (
        "replay",
        "replay-1",
        committed,
        committed,
    )
    results = verified(pipeline)
    assert sum(result.dead_letters for result in results) == 1

    again = replay(pipeline)
    assert (again.letters, again.unreadable) == (0, {"not_confluent_framed": 1})
    assert head_of(pipeline) == replayed.snapshot
    assert branches_of(pipeline) == []


def test_a_replay_is_remembered_for_as_long_as_letters_bear_it(pipeline: Pipeline) -> None:
    assert replay(pipeline).letters == 3
    (first,) = read_ledger(table_of(pipeline)).entry.replays
    dead_table, spark = pipeline.dead_letter_table, pipeline.spark
    # One that a run has kept once more while it was a row already.
    keep_again = f"UPDATE {dead_table} SET replay_id = NULL WHERE partition = 1 AND offset = 0"  # noqa: S608
    spark.sql(keep_again)
    assert replay(pipeline).letters == 1
    assert len(read_ledger(table_of(pipeline)).entry.replays) == 2
    # As retention deletes them, when no snapshot needs them any more.
    spark.sql(f"DELETE FROM {dead_table} WHERE replay_id = '{first}'")  # noqa: S608
    spark.sql(keep_again)
    assert replay(pipeline).letters == 1
    replays = read_ledger(table_of(pipeline)).entry.replays
    assert len(replays) == 1 and first not in replays
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    verified(pipeline)


def test_killed_before_its_commit_nothing_has_happened_and_the_next_does_all(
    pipeline: Pipeline,
) -> None:
    # Its turn was reserved and the answer lost; is reserved; letters are marked; rows are written.
    for name in ("committed", "planned", "dead_letters_kept", "files_written"):
        with killed_at(name):
            replay(pipeline)
        assert ids_of(pipeline) == [0, 1], name
        assert len(waiting(pipeline)) == 4, name
    verified(pipeline)
    with killed_at("committed", nth=2):  # its own, after that of the reservation
        replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    assert len(waiting(pipeline)) == 1
    assert replay(pipeline).letters == 0
    verified(pipeline)


def test_a_replay_that_begins_during_another_takes_its_turn(pipeline: Pipeline) -> None:
    with (
        meanwhile("dead_letters_kept", lambda: replay(pipeline)),
        pytest.raises(CommitConflict, match="Another replay"),
    ):
        replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    assert len(waiting(pipeline)) == 1
    verified(pipeline)


def test_a_replay_that_lost_its_turn_takes_no_letter_from_under_the_other(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first marks when the second is about to commit; neither knows of the other."""
    from tableflow_assets.operate import replay as replaying

    mark, others = replaying.mark, iter([True])

    def late_mark(*arguments: Any) -> None:
        if next(others, False):
            with meanwhile("files_written", lambda: mark(*arguments)):
                replay(pipeline)
            raise Interruption
        mark(*arguments)

    monkeypatch.setattr(replaying, "mark", late_mark)
    with pytest.raises(Interruption):
        replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    assert len(waiting(pipeline)) == 1
    verified(pipeline)


def test_replays_at_the_same_time_bring_every_letter_once(pipeline: Pipeline) -> None:
    def attempt(_: int) -> None:
        with suppress(CommitConflict):
            replay(pipeline)

    with ThreadPoolExecutor(2) as executor:
        list(executor.map(attempt, range(2)))
    replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    verified(pipeline)


def test_runs_and_rollbacks_around_a_replay_lose_and_double_nothing(
    pipeline: Pipeline, late: Late
) -> None:
    before = head_of(pipeline)
    late.topic.send(PAYMENT, payments(2, first=2), partition=0)
    with meanwhile("files_written", pipeline.catch_up):
        assert replay(pipeline, error="not_confluent_framed").letters == 0
        (error,) = {r["error"] for r in letters_of(pipeline) if r["schema_id"] is not None}
        assert replay(pipeline, error=error).letters == 3
    assert ids_of(pipeline) == [0, 1, 2, 3, 10, 11, 12]
    verified(pipeline)

    # The replay goes with its rows; the run's records are read again.
    table_of(pipeline).manage_snapshots().rollback_to_snapshot(before).commit()
    assert len(waiting(pipeline)) == 4
    verified(pipeline)
    pipeline.catch_up()
    assert replay(pipeline).letters == 3
    assert ids_of(pipeline) == [0, 1, 2, 3, 10, 11, 12]
    verified(pipeline)


def test_a_replay_whose_commit_is_told_to_have_failed_finds_that_it_has_not(
    pipeline: Pipeline, late: Late, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was lost, and a run has committed since: the table's head is another's."""
    commit_branch, times = commits.commit_branch, iter(range(10))

    def answer_is_lost(*arguments: Any, **options: Any) -> int:
        head = commit_branch(*arguments, **options)
        if next(times) == 1:  # the reservation was the first
            late.topic.send(PAYMENT, payments(1, first=2), partition=0)
            pipeline.catch_up()
            raise CommitConflict("Another writer committed.")
        return head

    monkeypatch.setattr(commits, "commit_branch", answer_is_lost)
    assert replay(pipeline).letters == 3
    assert ids_of(pipeline) == [0, 1, 2, 10, 11, 12]
    verified(pipeline)


def test_letters_of_a_run_that_did_not_commit_are_no_matter_of_a_replay(
    tableflow: Tableflow, late: Late
) -> None:
    """They are beyond the ledger's end: the next run reads them."""
    late.topic.send(PAYMENT, payments(1), partition=0)
    pipeline = pipeline_of(tableflow, late.topic)
    pipeline.catch_up()
    late.send(10)
    with killed_at("dead_letters_kept"):
        pipeline.catch_up()
    late.register()
    assert replay(pipeline).letters == 0
    pipeline.catch_up()
    replay(pipeline)
    assert ids_of(pipeline) == [0, 10]
    verified(pipeline)


def test_an_erased_key_does_not_come_back(pipeline: Pipeline) -> None:
    """Not even if the erasure comes just before the commit, and is killed before it is through."""

    def erase_rows_only() -> None:
        forgetting._KeyErasure(pipeline, "somebody", "text").commit("")

    with meanwhile("files_written", erase_rows_only):
        replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 12]
    verified(pipeline)
    forgetting.forget(pipeline, "somebody")
    assert [row["key"] for row in letters_of(pipeline)] == [None, None]
    assert replay(pipeline).letters == 0


def test_a_rebuilt_table_has_letters_of_its_own(pipeline: Pipeline) -> None:
    with (
        meanwhile("files_written", lambda: rebuild(pipeline)),
        pytest.raises(CommitConflict, match="or a rebuild"),
    ):
        replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    assert replay(pipeline).letters == 0
    verified(pipeline)


# --- one row a key ----------------------------------------------------------------------------


def test_with_keys_a_letter_takes_its_place_among_the_changes_of_its_key(
    tableflow: Tableflow, late: Late
) -> None:
    topic, start = late.topic, milliseconds(day(1))

    def good(key: str, number: int, at: int, partition: int = 0) -> None:
        topic.send(PAYMENT, payments(1, number), key=key, partition=partition, timestamp=start + at)

    def letter(key: str, number: int, at: int, partition: int = 0) -> None:
        late.send(number, key=key, partition=partition, timestamp=start + at)

    def tombstone(key: str, at: int, partition: int = 0) -> None:
        topic.send_bytes([None], key=key, partition=partition, timestamp=start + at)

    good("updated", 1, at=0)
    good("moved", 2, at=0, partition=1)
    good("moved back", 3, at=50, partition=1)
    good("stays", 4, at=0)
    topic.send_bytes([b"nonsense"], key="stays", partition=0, timestamp=start + 1)
    letter("updated", 10, at=10)
    letter("overwritten", 11, at=11)
    letter("deleted", 12, at=12)
    letter("new", 13, at=13)
    letter("moved", 14, at=14)
    letter("moved back", 15, at=15)
    letter("deleted elsewhere", 16, at=16)
    good("overwritten", 5, at=20)
    tombstone("deleted", at=20)
    tombstone("deleted elsewhere", at=20, partition=1)
    pipeline = pipeline_of(tableflow, topic, mode="upsert", key_buckets=2)
    pipeline.catch_up()
    assert ids_of(pipeline) == [1, 2, 3, 4, 5]
    late.register()
    with killed_at("files_written"):
        replay(pipeline)
    assert ids_of(pipeline) == [1, 2, 3, 4, 5]

    assert replay(pipeline).letters == 7

    by_key = {row["_kafka"]["key"].decode(): row["id"] for row in rows_of(pipeline)}
    assert by_key == {
        "updated": 10,
        "moved": 14,
        "moved back": 3,
        "stays": 4,
        "overwritten": 5,
        "new": 13,
    }
    assert len(waiting(pipeline)) == 1
    verified(pipeline)


def test_with_keys_a_letter_that_has_expired_from_the_log_stays_a_letter(
    tableflow: Tableflow, late: Late
) -> None:
    """Nobody knows any more what came after it: perhaps a deletion."""
    late.send(10, key="a", partition=0)
    late.topic.send_bytes([None], key="a", partition=0)
    late.send(11, key="b", partition=0)
    pipeline = pipeline_of(tableflow, late.topic, mode="upsert", key_buckets=2)
    pipeline.catch_up()
    late.register()
    late.topic.delete_records_before(partition=0, offset=2)
    replayed = replay(pipeline)
    assert (replayed.letters, replayed.out_of_order) == (1, 1)
    assert ids_of(pipeline) == [11]
    assert waiting(pipeline) == {(0, 0)}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_what_a_killed_run_has_kept_aside_stays_there_until_it_is_replayed(
    tableflow: Tableflow, late: Late, mode: str
) -> None:
    """The run after it knows the schema, and would make a row of it as well."""
    late.topic.send(PAYMENT, payments(1), partition=0, key="a")
    pipeline = pipeline_of(tableflow, late.topic, mode=mode)
    pipeline.catch_up()
    late.send(10, key="b")
    late.topic.send(PAYMENT, payments(1, first=1), partition=0, key="c")
    with killed_at("dead_letters_kept"):
        pipeline.catch_up()
    late.register()
    committed = pipeline.catch_up()
    assert (committed.rows, committed.dead_letters) == (1, 1)
    assert ids_of(pipeline) == [0, 1]
    verified(pipeline)
    replay(pipeline)
    assert ids_of(pipeline) == [0, 1, 10]
    verified(pipeline)


def test_a_window_that_is_rebuilt_keeps_the_rows_that_were_letters(pipeline: Pipeline) -> None:
    replay(pipeline)
    rebuild_windows(pipeline, None, datetime.now(UTC) + timedelta(days=1))
    assert ids_of(pipeline) == [0, 1, 10, 11, 12]
    verified(pipeline)
