"""The states that a table has had: what readers saw, from when on, and where it came from.

Iceberg's own list of what was current, and since when, tells them apart from the snapshots that nobody
ever read: the first half of a commit to a table with keys, a branch, the steps of a rebuild.
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
    operation_of,
    rows_in,
    tags_of,
    total_of,
)

# tagged: so old that what lies between has expired. off main: no reader ever saw it.
Place = Literal["current", "main", "rolled back", "tagged", "off main"]


@dataclass(frozen=True)
class State:
    """A snapshot, as one line of the table's history."""

    snapshot_id: int
    at: datetime  # since when it was the table's state; off main: when it was written
    operation: str
    place: Place
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
    """Of one table, as of when it was loaded; asks nobody."""

    def __init__(self, table: Table, delta_versions: Mapping[int, int] | None = None) -> None:
        self.table, self.delta_versions = table, delta_versions or {}
        self.snapshots = {one.snapshot_id: one for one in table.snapshots()}
        self.head = self.snapshots.get(table.metadata.current_snapshot_id or -1)
        self.refs: dict[int, list[str]] = {}
        for name, ref in sorted(table.metadata.refs.items()):
            self.refs.setdefault(ref.snapshot_id, []).append(name)

    @cached_property
    def main(self) -> dict[int, Snapshot]:
        """The snapshots that the current one builds on, itself first."""
        lineage = self.with_ancestors(self.head) if self.head else ()
        return {one.snapshot_id: one for one in lineage}

    @cached_property
    def became_current(self) -> list[tuple[int, Snapshot]]:
        """What was the table's state, and since when (milliseconds), oldest first."""
        log = [
            (entry.timestamp_ms, self.snapshots[entry.snapshot_id])
            for entry in self.table.metadata.snapshot_log
            if entry.snapshot_id in self.snapshots
        ]
        # Catalogs may cut the list when snapshots expire. Before it begins: what a commit has ended.
        known = {snapshot.snapshot_id for _, snapshot in log}
        begin = min((at for at, _ in log), default=None)
        older = [
            (one.timestamp_ms, one)
            for key, one in self.main.items()
            if key not in known
            and (begin is None or one.timestamp_ms < begin)
            and (entry_of(one) is not None or is_compaction(one))
        ]
        return sorted(older, key=lambda one: one[0]) + log

    @cached_property
    def tagged(self) -> set[int]:
        return set(tags_of(self.table).values())

    @cached_property
    def seen(self) -> set[int]:
        return {snapshot.snapshot_id for _, snapshot in self.became_current}

    def states(self, limit: int | None = None, *, also_unseen: bool = False) -> list[State]:
        """Newest first; ``also_unseen``: with the snapshots that are not known to have been one."""
        lines = [
            (at, snapshot, before)
            for (at, snapshot), before in zip(
                self.became_current,
                [None, *(snapshot for _, snapshot in self.became_current)],
                strict=False,
            )
        ]
        unseen = [one for key, one in self.snapshots.items() if key not in self.seen]
        lines += [
            (one.timestamp_ms, one, self._parent(one))
            for one in unseen
            if also_unseen or one.snapshot_id in self.tagged
        ]
        newest_first = sorted(lines, key=lambda line: line[0])[::-1]
        return [self._state(*line) for line in newest_first[:limit]]

    def at(self, moment: Moment) -> Snapshot:
        """What the table was at a moment."""
        if moment.snapshot is not None:
            return self._by_id(moment.snapshot)
        if moment.tag is not None:
            return self._tagged(moment.tag)
        states = [one for at, one in self.became_current if at <= moment.milliseconds]
        if not states:
            raise self._nothing_yet(moment)
        return states[-1]

    def since(self, snapshot: Snapshot) -> datetime:
        """When the snapshot became the table's state for the first time."""
        times = [at for at, one in self.became_current if one.snapshot_id == snapshot.snapshot_id]
        return _time(min(times, default=snapshot.timestamp_ms))

    def _by_id(self, snapshot_id: int) -> Snapshot:
        if snapshot_id not in self.snapshots:
            raise NoSuchState(
                f"{self._name} has no snapshot {snapshot_id}, or has it no longer.",
                "See what there is with `tableflow history`.",
            )
        return self.snapshots[snapshot_id]

    def _tagged(self, tag: str) -> Snapshot:
        tags = tags_of(self.table)
        if tag not in tags:
            known = ", ".join(sorted(tags)) or "none"
            raise NoSuchState(
                f"{self._name} has no tag {tag!r}.",
                f"Its tags: {known}. See its states with `tableflow history`.",
            )
        return self._by_id(tags[tag])

    def _nothing_yet(self, moment: Moment) -> NoSuchState:
        if not self.became_current:
            return NoSuchState(f"{self._name} has no state yet.", "Let a run make it first.")
        at, oldest = self.became_current[0]
        is_first = oldest.parent_snapshot_id is None
        why = "did not exist yet" if is_first else "has no longer a state from so long ago"
        return NoSuchState(
            f"{self._name} {why}: asked for {moment.text!r}, its oldest state is of"
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
        """``before``: the state that it took the place of."""
        is_back = before is not None and self._is_older(snapshot, before)
        written = [] if is_back else self._written_since(snapshot, before)
        is_rewrite = bool(written) and all(map(is_compaction, written))
        rows, rows_added = (
            rows_in(snapshot),
            0 if is_rewrite else total_of(written, "added-records"),
        )
        # By what is left: a row may go with its file, or be marked as deleted.
        deleted = rows_in(before) + rows_added - rows if before else 0
        found = self.ledger_at(snapshot)
        entry = entry_of(snapshot)
        return State(
            snapshot_id=snapshot.snapshot_id,
            at=_time(at),
            operation="rollback" if is_back else self._operation(snapshot, before),
            place=self._place(snapshot),
            rows_added=rows_added,
            rows_deleted=0 if is_rewrite else max(deleted, 0),
            rows=rows,
            files_added=total_of(written, "added-data-files", "added-delete-files"),
            files_removed=total_of(written, "deleted-data-files", "removed-delete-files"),
            files=total_of([snapshot], "total-data-files", "total-delete-files"),
            offsets=dict(sorted(found[1].end.items())) if found else None,
            run_id=entry.run_id if entry and not is_back else "",
            refs=tuple(self.refs.get(snapshot.snapshot_id, ())),
            delta_version=self.delta_versions.get(snapshot.snapshot_id),
        )

    def _operation(self, snapshot: Snapshot, before: Snapshot | None) -> str:
        is_part = entry_of(snapshot) is None and self._place(snapshot) == "off main"
        name = operation_of(snapshot, before)
        return "part of a commit" if is_part and not is_compaction(snapshot) else name

    def ledger_at(self, snapshot: Snapshot) -> tuple[Snapshot, Entry] | None:
        """As the ledger is read: compaction is passed over, what others did is not."""
        for one in self.with_ancestors(snapshot):
            if (entry := entry_of(one)) is not None:
                return one, entry
            if not is_compaction(one):
                break
        return None

    def _is_older(self, snapshot: Snapshot, than: Snapshot) -> bool:
        if (snapshot.sequence_number or 0) >= (than.sequence_number or 0):
            return False
        return any(one is snapshot for one in self.with_ancestors(than))

    def _written_since(self, snapshot: Snapshot, before: Snapshot | None) -> list[Snapshot]:
        """The snapshots of one commit: a table with keys takes two, a rebuild many."""
        written: list[Snapshot] = []
        for one in self.with_ancestors(snapshot):
            if one is before:
                return written
            written.append(one)
        return [snapshot]  # the way back is broken, or leads elsewhere

    def _place(self, snapshot: Snapshot) -> Place:
        if snapshot is self.head:
            return "current"
        if snapshot.snapshot_id not in self.seen:
            return "tagged" if snapshot.snapshot_id in self.tagged else "off main"
        return "main" if snapshot.snapshot_id in self.main else "rolled back"


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
