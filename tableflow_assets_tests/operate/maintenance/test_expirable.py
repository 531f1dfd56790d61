"""Which snapshots may go, on tables that are only told of."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from tableflow_assets.operate.maintenance import expirable as snapshots
from tableflow_assets.operate.maintenance.expirable import expirable, outlived_tags
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


def expired(table: Table, before: int = NOW, **options: Any) -> list[int]:
    return [snapshot.snapshot_id for snapshot in expirable(table, before, NOW, **options)]


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


def test_more_than_so_many_go_however_young_once_no_query_can_be_reading_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshots, "SNAPSHOTS_AT_MOST", 4)
    monkeypatch.setattr(snapshots, "QUERIES_END_WITHIN", timedelta(milliseconds=NOW - 2))
    assert expired(table_with("eeeeee"), before=0) == [1]
    monkeypatch.setattr(snapshots, "QUERIES_END_WITHIN", timedelta())
    assert expired(table_with("eeeeee"), before=0) == [1, 2]


def test_only_what_is_old_enough_goes() -> None:
    assert expired(table_with("eeeeee"), before=3) == [1, 2]


def test_tags_and_branches_keep_what_they_need() -> None:
    assert expired(table_with("eeeeee", audit=(2, "tag", None))) == [1, 3, 4]
    # A branch's own ledger is read from its head down.
    assert expired(table_with("eeceeee", writer=(3, "branch", None))) == [1, 4, 5]
    assert expired(table_with("eeeeee"), also_kept=[3]) == [1, 2, 4]


def test_a_tag_that_was_made_for_a_time_goes_after_it() -> None:
    table = table_with("eeeeee", short=(2, "tag", NOW - 3), long=(3, "tag", NOW))
    assert outlived_tags(table, NOW) == ["short"]
    assert expired(table) == [1, 2, 4]
