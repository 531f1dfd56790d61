"""Take a table back to an earlier state, rows and ledger together: the next run reads the rest again.

Rows and ledger are one snapshot, so `main` and the ledger's tag move in one commit. What was current
stays under a tag of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from tableflow_assets.base.errors import DataLoss, RollbackRefused
from tableflow_assets.decode.types import KEYED_MODES
from tableflow_assets.operate.history import History, State
from tableflow_assets.operate.moments import Moment
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import lost_before
from tableflow_assets.table import commit as commits
from tableflow_assets.table.create import PRODUCT, mode_of
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.key_identity import changed_by
from tableflow_assets.table.keyed.forgotten import are_among
from tableflow_assets.table.layout_fields import KEY_BUCKET
from tableflow_assets.table.ledger import TAG, Entry, Ledger, read_entries
from tableflow_assets.table.suspension import suspension_of

OLD_HEAD = "tableflow_before_rollback"  # followed by the time: the tag of what was current


@dataclass(frozen=True)
class Rollback:
    """What was dropped or, where ``is_done`` is false, would be."""

    topic: str
    to: State
    dropped: tuple[State, ...]  # newest first
    rows_before: int
    to_read_again: dict[int, tuple[int, int]]  # Kafka partition → offsets [from, to)
    head: int
    ledger: int  # the snapshot with the ledger's entry, which compaction may have followed
    kept_as: str = ""  # the tag of what was current
    suspended: str = ""  # why, if the topic is
    is_done: bool = False
    is_before_rebase: bool = False  # then the topic has to be rebased again before it goes on

    @property
    def is_nothing(self) -> bool:
        return self.to.snapshot_id == self.head

    def to_json(self) -> dict[str, Any]:
        states = {"to": self.to.to_json(), "dropped": [state.to_json() for state in self.dropped]}
        again = {str(p): list(offsets) for p, offsets in self.to_read_again.items()}
        return asdict(self) | states | {"to_read_again": again}


def find(handle: TableHandle, moment: Moment, log: Log) -> Rollback:
    """What a rollback would drop; refused where it would lose rows or bring erased ones back.

    ``log``: a topic's must still hold what would have to be read again. Products have none.
    """
    table = handle.existing_table("roll back")
    history = History(table)
    target = history.at(moment)
    _refuse_a_state_off_main(handle, history, target)
    ledger_at_target = history.ledger_at(target)
    if ledger_at_target is None:
        raise _refused(handle, target, "its ledger cannot be read")
    holder, entry = ledger_at_target
    newest = read_entries(table)[0][1]
    _refuse_erased_keys(handle, target, entry, newest)
    _refuse_another_mode(handle, table, target, entry, newest)
    _refuse_another_key_identity(handle, table, target, entry)
    is_before_rebase = newest.lineage != entry.lineage and newest.epoch > entry.epoch
    if is_before_rebase:
        _refuse_more_than_one_rebase(handle, target, entry, newest)
    # The log before a rebase is gone: what is read again are the records of the one after it.
    begin = replace(newest, end=newest.origin) if is_before_rebase else entry
    to_read_again = {
        partition: (begin.end.get(partition, 0), end)
        for partition, end in sorted(newest.end.items())
        if end > begin.end.get(partition, 0)
    }
    ledger = Ledger(begin, holder.timestamp_ms, target.snapshot_id)
    if mode_of(table) != PRODUCT:  # which has no log, and is computed again from its inputs
        _refuse_a_loss(handle, log, table, target, ledger, to_read_again)
    states = history.states()
    suspension = suspension_of(table, handle.spec)
    return Rollback(
        topic=handle.spec.name,
        to=next(state for state in states if state.snapshot_id == target.snapshot_id),
        dropped=_dropped(history, states, target),
        rows_before=states[0].rows,
        to_read_again=to_read_again,
        head=states[0].snapshot_id,
        ledger=holder.snapshot_id,
        suspended=suspension.reason if suspension else "",
        is_before_rebase=is_before_rebase,
    )


def roll_back(handle: TableHandle, rollback: Rollback) -> Rollback:
    """Carry out what ``find`` has found, if the table is still as it was then."""
    if rollback.is_nothing:
        return rollback
    from tableflow_assets.table.delta.mirror import follow

    table = handle.existing_table("roll back")
    kept_as = f"{OLD_HEAD}_{time.time_ns() // 1_000_000}"
    _move_main(handle, table, rollback, kept_as)
    follow(handle.catalog, table)
    return replace(rollback, kept_as=kept_as, is_done=True)


def _move_main(handle: TableHandle, table: Table, rollback: Rollback, kept_as: str) -> None:
    catalog, target = handle.catalog, rollback.to.snapshot_id
    is_unchanged = AssertRefSnapshotId.model_validate(
        {"ref": MAIN_BRANCH, "snapshot-id": rollback.head}
    )
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), is_unchanged)
    updates = (
        _ref(MAIN_BRANCH, target, SnapshotRefType.BRANCH),
        _ref(TAG, rollback.ledger, SnapshotRefType.TAG),
        _ref(kept_as, rollback.head, SnapshotRefType.TAG),
    )
    commits.move_main(catalog, table, requirements, updates, rollback.head, target)


def _ref(name: str, snapshot: int, kind: SnapshotRefType) -> SetSnapshotRefUpdate:
    ref = {"ref-name": name, "snapshot-id": snapshot, "type": kind}
    return SetSnapshotRefUpdate.model_validate(ref)


def _dropped(history: History, states: list[State], target: Snapshot) -> tuple[State, ...]:
    """The states of main after the target."""
    target_ids = {snapshot.snapshot_id for snapshot in history.with_ancestors(target)}
    dropped: dict[int, State] = {}
    for state in states:
        if state.snapshot_id in history.main and state.snapshot_id not in target_ids:
            dropped.setdefault(state.snapshot_id, state)
    return tuple(dropped.values())


# --- what is refused --------------------------------------------------------------------------


def _refuse_a_state_off_main(handle: TableHandle, history: History, target: Snapshot) -> None:
    """Off main, other letters may have become rows than on main: the two cannot be reconciled."""
    if target.snapshot_id in history.main and target.snapshot_id in history.state_ids:
        return
    again = "The next run reads those records from the log again."
    if target.snapshot_id in history.state_ids - history.kept:
        why = "the table has already been rolled back past it"
        raise _refused(handle, target, why, again)
    oldest = list(history.main.values())[-1]
    is_cut = oldest.parent_snapshot_id is not None and target.timestamp_ms < oldest.timestamp_ms
    why = "the snapshots since then have expired" if is_cut else "it never was the table's state"
    raise _refused(handle, target, why)


def _refuse_erased_keys(handle: TableHandle, target: Snapshot, entry: Entry, newest: Entry) -> None:
    if not are_among(newest.forgotten, entry.forgotten):
        why = "keys were erased since then (`tableflow forget`), and would come back"
        raise _refused(handle, target, why)


def _refuse_another_mode(
    handle: TableHandle, table: Table, target: Snapshot, entry: Entry, newest: Entry
) -> None:
    """A rebuild may have changed the mode. The layout shows whether there is one row per key."""
    if entry.lineage == newest.lineage:
        return
    specs = {manifest.partition_spec_id for manifest in target.manifests(table.io)}
    layouts = [[field.name for field in table.specs()[spec].fields] for spec in specs]
    has_keys = [any(name.startswith(KEY_BUCKET) for name in names) for names in layouts]
    if any(is_keyed != (mode_of(table) in KEYED_MODES) for is_keyed in has_keys):
        why = f"a rebuild has changed the table's mode since then, to {mode_of(table)}"
        raise _refused(
            handle,
            target,
            why,
            f"Set the former mode again, and rebuild it: tableflow rebuild {handle.spec.name}",
        )


def _refuse_more_than_one_rebase(
    handle: TableHandle, target: Snapshot, entry: Entry, newest: Entry
) -> None:
    """Of the logs between, nothing can be read again."""
    if newest.epoch - entry.epoch > 1 or newest.earlier[-1].lineage != entry.lineage:
        why = "it is from before more than one rebase, and the log between them is gone"
        raise _refused(handle, target, why)


def _refuse_another_key_identity(
    handle: TableHandle, table: Table, target: Snapshot, entry: Entry
) -> None:
    lineages = (later.lineage for _, later in read_entries(table))
    since_then = takewhile(lambda lineage: lineage != entry.lineage, lineages)
    if {*since_then} & {*changed_by(table)}:
        raise _refused(handle, target, "a rebuild has changed what tells the keys apart since then")


def _refuse_a_loss(
    handle: TableHandle,
    log: Log,
    table: Table,
    target: Snapshot,
    ledger: Ledger,
    to_read_again: Mapping[int, tuple[int, int]],
) -> None:
    """Everything that is dropped must still be in the log."""
    name = handle.spec.name
    topic = log.identify(name)
    lost_partitions = lost_before(log, topic, ledger).keys() & to_read_again.keys()
    end = log.end(topic)
    lost_partitions |= {p for p, (_, to) in to_read_again.items() if to > end.get(p, 0)}
    if lost_partitions:
        begin = log.earliest(topic)
        where = ", ".join(
            f"partition {p}: {to_read_again[p][0]} to {to_read_again[p][1] - 1}, where the log has"
            f" {begin.get(p, 0)} to {end.get(p, 0) - 1}"
            for p in sorted(lost_partitions)
        )
        raise DataLoss(
            f"{name!r} cannot go back to snapshot {target.snapshot_id}: the log no longer holds all"
            f" that would have to be read again ({where}).",
            f"The table is as it was. Choose a later state: tableflow history {name}",
        )
    if to_read_again and mode_of(table) not in KEYED_MODES and log.is_compacted(name):
        why = "the topic is compacted: records that are rows now may be gone from the log"
        raise _refused(handle, target, why)


def _refused(
    handle: TableHandle, target: Snapshot, why: str, next_step: str = ""
) -> RollbackRefused:
    name = handle.spec.name
    return RollbackRefused(
        f"{name!r} cannot go back to snapshot {target.snapshot_id}: {why}.",
        next_step or f"The table is as it was. Choose another state: tableflow history {name}",
    )
