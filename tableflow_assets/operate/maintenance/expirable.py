"""Which snapshots of a table nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.table.ledger import ancestors
from tableflow_assets.table.snapshots import has_entry, is_state

STATES_KEPT = 2  # the current one, and the one before to go back to
# The table's metadata lists all of its snapshots, and every commit rewrites it: with a commit every few
# seconds for days, each would be slower. Beyond so many, a snapshot expires whatever its age, unless a
# query may still be reading it.
SNAPSHOTS_AT_MOST = 500
QUERIES_END_WITHIN = timedelta(hours=1)


def expirable(
    table: Table, before_ms: int, now_ms: int, also_kept: Iterable[int] = ()
) -> list[Snapshot]:
    """Snapshots from before the moment, or too many, that no reader, tag, branch or ledger needs."""
    needed = {*also_kept, *_needed(table, now_ms)}
    newest_first = sorted(
        table.snapshots(), key=lambda snapshot: snapshot.timestamp_ms, reverse=True
    )
    surplus = {snapshot.snapshot_id for snapshot in newest_first[SNAPSHOTS_AT_MOST:]}
    unread_ms = now_ms - QUERIES_END_WITHIN // timedelta(milliseconds=1)

    def is_old(snapshot: Snapshot) -> bool:
        in_surplus = snapshot.snapshot_id in surplus and snapshot.timestamp_ms < unread_ms
        return snapshot.timestamp_ms < before_ms or in_surplus

    return [s for s in table.snapshots() if is_old(s) and s.snapshot_id not in needed]


def outlived_tags(table: Table, now_ms: int) -> list[str]:
    """Tags and branches whose lifetime is over."""
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
    """The snapshots by which the ledger is read; all ancestors where there is no entry."""
    if not any(map(has_entry, table.snapshots())):  # dead letters have no ledger
        return
    for snapshot in ancestors(table, head):
        yield snapshot.snapshot_id
        if has_entry(snapshot):
            return


def _newest_states(table: Table, head: Snapshot) -> Iterator[int]:
    count = 0
    for snapshot in ancestors(table, head):
        if snapshot is head or is_state(snapshot):
            yield snapshot.snapshot_id
            count += 1
        if count == STATES_KEPT:
            return


def _is_outlived(table: Table, name: str, ref: SnapshotRef, now_ms: int) -> bool:
    snapshot = table.snapshot_by_id(ref.snapshot_id)
    if name == MAIN_BRANCH or ref.max_ref_age_ms is None or snapshot is None:
        return False
    return now_ms - snapshot.timestamp_ms > ref.max_ref_age_ms
