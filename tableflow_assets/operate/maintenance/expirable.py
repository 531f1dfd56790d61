"""Which snapshots of a table nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.ledger import ancestors
from tableflow_assets.table.snapshots import has_entry, is_state

STATES_KEPT = 2  # the current one, and the one before to go back to
QUERIES_END_WITHIN = timedelta(hours=1)
# Where snapshots are thinned out: one an hour stays, or fewer where that would be more than so many.
CLOSEST, MOST_KEPT = timedelta(hours=1), 240
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Limits:
    """Which snapshots may go: those from ``before_ms``, and those that are too many, thinned out.

    The table's metadata lists all of its snapshots, and every commit rewrites it: with a commit every
    few seconds for days, each would be slower and larger than the one before. So beyond ``at_most`` a
    snapshot goes whatever its age, unless a query may still be reading it or it is the last state of
    its time slot.
    """

    before_ms: int
    at_most: int = 500
    slot_ms: int = CLOSEST // MILLISECOND

    @classmethod
    def of(cls, topic: ManagedTable, before_ms: int) -> Limits:
        slot = max(CLOSEST, topic.keep_snapshots / MOST_KEPT)
        return cls(before_ms, topic.max_snapshots, slot // MILLISECOND)


@dataclass(frozen=True)
class SortedOut:
    """``kept``: the states that need a tag, because what lies between them goes."""

    expirable: tuple[Snapshot, ...]
    kept: tuple[Snapshot, ...]


def sort_out(
    table: Table, limits: Limits, now_ms: int, also_needed: Iterable[int] = ()
) -> SortedOut:
    """The snapshots that no reader, tag, branch or ledger needs."""
    needed = {*also_needed, *_needed(table, now_ms)}
    snapshots = [s for s in table.snapshots() if s.snapshot_id not in needed]
    surplus = set(_surplus(table, limits.at_most, now_ms))
    last = set(_last_of_each_slot(table, limits.slot_ms)) if surplus else set()

    def is_old(snapshot: Snapshot) -> bool:
        return snapshot.timestamp_ms < limits.before_ms

    too_many = [s for s in snapshots if s.snapshot_id in surplus and not is_old(s)]
    kept = tuple(s for s in too_many if s.snapshot_id in last)
    doomed = {s.snapshot_id for s in (*filter(is_old, snapshots), *too_many)}
    doomed -= {s.snapshot_id for s in kept}
    return SortedOut(tuple(s for s in snapshots if s.snapshot_id in doomed), kept)


def outlived_tags(table: Table, now_ms: int) -> list[str]:
    """Tags and branches whose lifetime is over."""
    refs = table.metadata.refs
    return [name for name, ref in refs.items() if _is_outlived(table, name, ref, now_ms)]


def _surplus(table: Table, at_most: int, now_ms: int) -> Iterator[int]:
    newest_first = sorted(table.snapshots(), key=lambda s: s.timestamp_ms, reverse=True)
    unread_ms = now_ms - QUERIES_END_WITHIN // MILLISECOND
    for snapshot in newest_first[at_most:]:
        if snapshot.timestamp_ms < unread_ms:
            yield snapshot.snapshot_id


def _last_of_each_slot(table: Table, slot_ms: int) -> Iterator[int]:
    """Of the states that readers saw. Dead letters have none: nobody travels back in them."""
    head, seen = table.current_snapshot(), set()
    for snapshot in ancestors(table, head) if head else ():
        slot = snapshot.timestamp_ms // slot_ms
        if slot not in seen and has_entry(snapshot):
            seen.add(slot)
            yield snapshot.snapshot_id


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
