"""Which snapshots may go, on tables that are only told of."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tableflow_assets.operate.maintenance import expirable as snapshots
from tableflow_assets.operate.maintenance.expirable import Limits, outlived_tags, sort_out
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.ledger import PROPERTY

NOW = 1000


def table_with(history: str, **tags: Any) -> Table:
    """A snapshot for each letter, one after the other, made at the times 1, 2, 3…

    ``e``: with a ledger entry, ``c``: a compaction, ``m``: the marks of a commit with keys.
    """
    operations = {"e": Operation.APPEND, "c": Operation.REPLACE, "m": Operation.DELETE}
    snapshots = {}
    for number, kind in enumerate(history, 1):
        entry = {PROPERTY: "{}"} if kind == "e" else {}
        snapshots[number] = Snapshot(
            snapshot_id=number,
            parent_snapshot_id=number - 1 or None,
            timestamp_ms=number,
            manifest_list="",
            summary=Summary(operations[kind], **entry),
        )
    refs = {"main": SnapshotRef(snapshot_id=len(history), snapshot_ref_type=SnapshotRefType.BRANCH)}
    for name, (snapshot, kind, age) in tags.items():
        refs[name] = SnapshotRef(
            snapshot_id=snapshot, snapshot_ref_type=SnapshotRefType(kind), max_ref_age_ms=age
        )
    fake = SimpleNamespace(
        metadata=SimpleNamespace(refs=refs),
        snapshots=lambda: list(snapshots.values()),
        snapshot_by_id=snapshots.get,
        current_snapshot=lambda: snapshots[len(history)],
    )
    return cast(Table, fake)


def expired(table: Table, before: int = NOW, also_needed: Iterable[int] = ()) -> list[int]:
    sorted_out = sort_out(table, Limits(before), NOW, also_needed)
    return [snapshot.snapshot_id for snapshot in sorted_out.expirable]


def thinned(
    table: Table, at_most: int, slot_ms: int, before: int = 0
) -> tuple[list[int], list[int]]:
    """The snapshots that go, and those that stay under a tag."""
    sorted_out = sort_out(table, Limits(before, at_most, slot_ms), NOW)
    parts = (sorted_out.expirable, sorted_out.kept)
    gone, kept = ([snapshot.snapshot_id for snapshot in part] for part in parts)
    return gone, kept


@pytest.mark.parametrize(
    ("history", "gone"),
    [
        ("eeeee", [1, 2, 3]),  # the present one and the one before it stay
        ("e", []),
        ("eecc", [1]),  # compactions after the newest entry: the way back to it stays
        ("eeccccc", [1]),
        ("ememe", [1, 2, 4]),  # what nobody ever saw goes, the state before it stays
        ("emecc", [1, 2]),
        ("cccc", [1, 2]),  # dead letters have no ledger
    ],
)
def test_what_readers_and_ledger_need_stays(history: str, gone: list[int]) -> None:
    assert expired(table_with(history)) == gone


def test_of_too_many_the_last_of_every_slot_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "QUERIES_END_WITHIN", timedelta())
    history = "e" * 12  # at the times 1 to 12
    assert thinned(table_with(history), at_most=12, slot_ms=4) == ([], [])
    # The slots are [0, 4), [4, 8), [8, 12): the last of the third is among the newest three.
    assert thinned(table_with(history), at_most=3, slot_ms=4) == ([1, 2, 4, 5, 6, 8, 9], [3, 7])
    # What has its tag needs none; and what is old goes, first or last.
    tagged = table_with(history, kept=(3, "tag", NOW))
    assert thinned(tagged, at_most=3, slot_ms=4) == ([1, 2, 4, 5, 6, 8, 9], [7])
    assert thinned(table_with(history), 3, 4, before=4) == ([1, 2, 3, 4, 5, 6, 8, 9], [7])


def test_nobody_travels_back_to_what_nobody_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "QUERIES_END_WITHIN", timedelta())
    assert thinned(table_with("ememcme"), at_most=2, slot_ms=2) == ([2, 4], [1, 3])
    assert thinned(table_with("mmmmmm"), at_most=2, slot_ms=2) == ([1, 2, 3, 4], [])


def test_too_many_stay_while_a_query_may_be_reading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "QUERIES_END_WITHIN", timedelta(milliseconds=NOW - 3))
    assert thinned(table_with("eeeeee"), at_most=2, slot_ms=100) == ([1, 2], [])


def test_slots_grow_where_states_are_kept_for_very_long() -> None:
    hours = 3_600_000
    assert Limits.of(Topic(name="t"), 0).slot_ms == hours
    ten_weeks = Topic(name="t", keep_snapshots=timedelta(days=70), max_snapshots=9)
    assert Limits.of(ten_weeks, 7) == Limits(7, 9, 7 * hours)


def test_only_what_is_old_enough_goes() -> None:
    assert expired(table_with("eeeeee"), before=3) == [1, 2]


def test_tags_and_branches_keep_what_they_need() -> None:
    assert expired(table_with("eeeeee", audit=(2, "tag", None))) == [1, 3, 4]
    # A branch's own ledger is read from its head down.
    assert expired(table_with("eeceeee", writer=(3, "branch", None))) == [1, 4, 5]
    assert expired(table_with("eeeeee"), also_needed=[3]) == [1, 2, 4]


def test_a_tag_that_was_made_for_a_time_goes_after_it() -> None:
    table = table_with("eeeeee", short=(2, "tag", NOW - 3), long=(3, "tag", NOW))
    assert outlived_tags(table, NOW) == ["short"]
    assert expired(table) == [1, 2, 4]
