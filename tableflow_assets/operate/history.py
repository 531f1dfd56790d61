"""The states that a table has had: what readers saw, since when, and where it came from.

Iceberg's own log of what was current, and since when, separates them from the snapshots that nobody ever
read: the first half of a commit to a table with keys, a branch, the steps of a rebuild.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.base.errors import NoSuchState
from tableflow_assets.operate.moments import Moment
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.snapshots import (
    entry_of,
    is_compaction,
    kept_states,
    operation_of,
    rows_in,
    tags_of,
    total_of,
)

# tagged: so old that the snapshots in between have expired. off main: no reader ever saw it.
StatePlace = Literal["current", "main", "rolled back", "tagged", "off main"]


@dataclass(frozen=True)
class State:
    """A snapshot, as one line of the table's history."""

    snapshot_id: int
    at: datetime  # since when it was the table's state; off main: when it was written
    operation: str
    place: StatePlace
    rows_added: int
    rows_deleted: int
    rows: int
    files_added: int
    files_removed: int
    files: int
    offsets: dict[int, int] | None  # per Kafka partition, up to where the log was read
    run_id: str
    refs: tuple[str, ...]
    delta_version: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"at": self.at.isoformat()}


class History:
    """The history of one table, as of when it was loaded; makes no request."""

    def __init__(self, table: Table, delta_versions: Mapping[int, int] | None = None) -> None:
        self.table, self.delta_versions = table, delta_versions or {}
        self.snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        self.head = self.snapshots.get(table.metadata.current_snapshot_id or -1)
        self.refs: dict[int, list[str]] = {}
        for name, ref in sorted(table.metadata.refs.items()):
            self.refs.setdefault(ref.snapshot_id, []).append(name)

    @cached_property
    def main(self) -> dict[int, Snapshot]:
        """The snapshots that the current one builds on, itself first."""
        lineage = self.with_ancestors(self.head) if self.head else ()
        return {snapshot.snapshot_id: snapshot for snapshot in lineage}

    @cached_property
    def became_current(self) -> list[tuple[int, Snapshot]]:
        """The table's states, each with the time it began (milliseconds), oldest first."""
        log = [
            (entry.timestamp_ms, self.snapshots[entry.snapshot_id])
            for entry in self.table.metadata.snapshot_log
            if entry.snapshot_id in self.snapshots
        ]
        # Catalogs may truncate the log when snapshots expire. Before it begins, go by our own commits.
        in_log = {snapshot.snapshot_id for _, snapshot in log}
        begin = min((at for at, _ in log), default=None)
        older = [
            (snapshot.timestamp_ms, snapshot)
            for snapshot_id, snapshot in self.snapshots.items()
            if (snapshot_id in self.main or snapshot_id in self.kept)
            and snapshot_id not in in_log
            and (begin is None or snapshot.timestamp_ms < begin)
            and (entry_of(snapshot) is not None or is_compaction(snapshot))
        ]
        return sorted(older, key=lambda state: state[0]) + log

    @cached_property
    def tagged(self) -> set[int]:
        return set(tags_of(self.table).values())

    @cached_property
    def kept(self) -> set[int]:
        """The states that stayed when too many snapshots were thinned out."""
        return kept_states(self.table)

    @cached_property
    def state_ids(self) -> set[int]:
        return {snapshot.snapshot_id for _, snapshot in self.became_current}

    def states(self, limit: int | None = None, *, also_unseen: bool = False) -> list[State]:
        """Newest first; ``also_unseen``: with the snapshots that are not known to have been a state."""
        lines = [
            (at, snapshot, before)
            for (at, snapshot), before in zip(
                self.became_current,
                [None, *(snapshot for _, snapshot in self.became_current)],
                strict=False,
            )
        ]
        lines += [
            (snapshot.timestamp_ms, snapshot, self._parent(snapshot))
            for snapshot_id, snapshot in self.snapshots.items()
            if snapshot_id not in self.state_ids and (also_unseen or snapshot_id in self.tagged)
        ]
        newest_first = sorted(lines, key=lambda line: line[0])[::-1]
        return [self._state(*line) for line in newest_first[:limit]]

    def at(self, moment: Moment) -> Snapshot:
        """The table's state at a moment."""
        if moment.snapshot is not None:
            return self._by_id(moment.snapshot)
        if moment.tag is not None:
            return self._tagged(moment.tag)
        states = [snapshot for at, snapshot in self.became_current if at <= moment.milliseconds]
        if not states:
            raise self._nothing_yet(moment)
        return states[-1]

    def since(self, snapshot: Snapshot) -> datetime:
        """When the snapshot became the table's state for the first time."""
        times = [
            at for at, state in self.became_current if state.snapshot_id == snapshot.snapshot_id
        ]
        return _time(min(times, default=snapshot.timestamp_ms))

    def _by_id(self, snapshot_id: int) -> Snapshot:
        if snapshot_id not in self.snapshots:
            raise NoSuchState(
                f"{self._name} has no snapshot {snapshot_id}, or no longer has it.",
                "See what there is with `tableflow history`.",
            )
        return self.snapshots[snapshot_id]

    def _tagged(self, tag: str) -> Snapshot:
        tags = tags_of(self.table)
        if tag not in tags:
            names = ", ".join(sorted(tags)) or "none"
            raise NoSuchState(
                f"{self._name} has no tag {tag!r}.",
                f"Its tags: {names}. See its states with `tableflow history`.",
            )
        return self._by_id(tags[tag])

    def _nothing_yet(self, moment: Moment) -> NoSuchState:
        if not self.became_current:
            return NoSuchState(f"{self._name} has no state yet.", "Let a run make it first.")
        at, oldest = self.became_current[0]
        is_first = oldest.parent_snapshot_id is None
        why = "did not exist yet" if is_first else "no longer has a state from that long ago"
        return NoSuchState(
            f"{self._name} {why}: asked for {moment.text!r}, its oldest state is from"
            f" {_time(at).isoformat(timespec='milliseconds')}.",
            "Choose a later moment; `tableflow history` lists them.",
        )

    @property
    def _name(self) -> str:
        return ".".join(self.table.name())

    def _parent(self, snapshot: Snapshot) -> Snapshot | None:
        return self.snapshots.get(snapshot.parent_snapshot_id or -1)

    def with_ancestors(self, snapshot: Snapshot) -> Iterator[Snapshot]:
        current: Snapshot | None = snapshot
        while current is not None:
            yield current
            current = self._parent(current)

    def _state(self, at: int, snapshot: Snapshot, before: Snapshot | None) -> State:
        """``before``: the state it replaced."""
        is_rollback = before is not None and self._is_older(snapshot, before)
        new_snapshots = [] if is_rollback else self._written_since(snapshot, before)
        is_rewrite = bool(new_snapshots) and all(map(is_compaction, new_snapshots))
        rows, rows_added = (
            rows_in(snapshot),
            0 if is_rewrite else total_of(new_snapshots, "added-records"),
        )
        # By what remains: a row may go with its file, or be marked as deleted.
        deleted = rows_in(before) + rows_added - rows if before else 0
        ledger = self.ledger_at(snapshot)
        entry = entry_of(snapshot)
        return State(
            snapshot_id=snapshot.snapshot_id,
            at=_time(at),
            operation="rollback" if is_rollback else self._operation(snapshot, before),
            place=self._place(snapshot),
            rows_added=rows_added,
            rows_deleted=0 if is_rewrite else max(deleted, 0),
            rows=rows,
            files_added=total_of(new_snapshots, "added-data-files", "added-delete-files"),
            files_removed=total_of(new_snapshots, "deleted-data-files", "removed-delete-files"),
            files=total_of([snapshot], "total-data-files", "total-delete-files"),
            offsets=dict(sorted(ledger[1].end.items())) if ledger else None,
            run_id=entry.run_id if entry and not is_rollback else "",
            refs=tuple(self.refs.get(snapshot.snapshot_id, ())),
            delta_version=self.delta_versions.get(snapshot.snapshot_id),
        )

    def _operation(self, snapshot: Snapshot, before: Snapshot | None) -> str:
        is_part = entry_of(snapshot) is None and self._place(snapshot) == "off main"
        name = operation_of(snapshot, before)
        return "part of a commit" if is_part and not is_compaction(snapshot) else name

    def ledger_at(self, snapshot: Snapshot) -> tuple[Snapshot, Entry] | None:
        """The newest entry from here back, as ``read_ledger`` finds it: past compactions only."""
        for ancestor in self.with_ancestors(snapshot):
            if (entry := entry_of(ancestor)) is not None:
                return ancestor, entry
            if not is_compaction(ancestor):
                break
        return None

    def _is_older(self, snapshot: Snapshot, than: Snapshot) -> bool:
        if (snapshot.sequence_number or 0) >= (than.sequence_number or 0):
            return False
        return any(ancestor is snapshot for ancestor in self.with_ancestors(than))

    def _written_since(self, snapshot: Snapshot, before: Snapshot | None) -> list[Snapshot]:
        """The snapshots of one commit: a table with keys takes two, a rebuild many."""
        snapshots: list[Snapshot] = []
        for ancestor in self.with_ancestors(snapshot):
            if ancestor is before:
                return snapshots
            snapshots.append(ancestor)
        return [snapshot]  # the chain is broken, or leads elsewhere

    def _place(self, snapshot: Snapshot) -> StatePlace:
        if snapshot is self.head:
            return "current"
        if snapshot.snapshot_id not in self.state_ids:
            return "tagged" if snapshot.snapshot_id in self.tagged else "off main"
        if snapshot.snapshot_id in self.main:
            return "main"
        return "tagged" if snapshot.snapshot_id in self.kept else "rolled back"


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
