"""Which snapshots of a table nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.table.ledger import ancestors
from tableflow_assets.table.snapshots import has_entry, is_state

STATES_KEPT = 2  # the present one, and the one before it to go back to
# The table's metadata lists all of its snapshots, and every commit writes it anew: a commit every few
# seconds for days would make each of them slower. Beyond so many, age is no reason to stay, unless a
# query may still be reading it.
SNAPSHOTS_AT_MOST = 500
QUERIES_END_WITHIN = timedelta(hours=1)


def expirable(
    table: Table, before_ms: int, now_ms: int, also_kept: Iterable[int] = ()
) -> list[Snapshot]:
    """Those made before the moment, or too many, that no reader, tag, branch or ledger needs."""
    kept = {*also_kept, *_needed(table, now_ms)}
    newest_first = sorted(table.snapshots(), key=lambda one: one.timestamp_ms, reverse=True)
    surplus = {one.snapshot_id for one in newest_first[SNAPSHOTS_AT_MOST:]}
    unread_ms = now_ms - QUERIES_END_WITHIN // timedelta(milliseconds=1)

    def is_old(one: Snapshot) -> bool:
        in_surplus = one.snapshot_id in surplus and one.timestamp_ms < unread_ms
        return one.timestamp_ms < before_ms or in_surplus

    return [one for one in table.snapshots() if is_old(one) and one.snapshot_id not in kept]


def outlived_tags(table: Table, now_ms: int) -> list[str]:
    """Tags and branches that were made for a time, which is over."""
    refs = table.metadata.refs
    return [name for name, ref in refs.items() if _is_outlived(table, name, ref, now_ms)]


def _needed(table: Table, now_ms: int) -> Iterator[int]:
    for name, ref in table.metadata.refs.items():
        if _is_outlived(table, name, ref, now_ms):
            continue
        yield ref.snapshot_id
        head = table.snapshot_by_id(ref.snapshot_id)
        if ref.snapshot_ref_type == SnapshotRefType.BRANCH and head is not None:
            yield from _down_to_the_ledger(table, head)
    if (current := table.current_snapshot()) is not None:
        yield from _newest_states(table, current)


def _down_to_the_ledger(table: Table, head: Snapshot) -> Iterator[int]:
    """The way that the ledger is read by; all of it where there is no entry to be found."""
    if not any(map(has_entry, table.snapshots())):  # dead letters have no ledger
        return
    for snapshot in ancestors(table, head):
        yield snapshot.snapshot_id
        if has_entry(snapshot):
            return


def _newest_states(table: Table, head: Snapshot) -> Iterator[int]:
    found = 0
    for snapshot in ancestors(table, head):
        if snapshot is head or is_state(snapshot):
            yield snapshot.snapshot_id
            found += 1
        if found == STATES_KEPT:
            return


def _is_outlived(table: Table, name: str, ref: SnapshotRef, now_ms: int) -> bool:
    snapshot = table.snapshot_by_id(ref.snapshot_id)
    if name == MAIN_BRANCH or ref.max_ref_age_ms is None or snapshot is None:
        return False
    return now_ms - snapshot.timestamp_ms > ref.max_ref_age_ms
