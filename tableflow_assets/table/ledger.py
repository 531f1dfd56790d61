"""The table as its own ledger: which offsets its rows come from, told by its snapshots.

Every commit writes one entry, as a property of the snapshot that adds the rows. So entry and rows
appear together, disappear together in a rollback, and nothing else needs to be believed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from tableflow_assets.base.errors import LedgerError

PROPERTY = "tableflow.ledger"
# Moves with every commit, so that the newest entry's snapshot never expires: compaction's snapshots
# have no entry, and expiry would otherwise leave only those.
TAG = "tableflow_ledger"
Kind = Literal["records", "origin", "window", "loss", "forget", "replay", "retention", "product"]


@dataclass(frozen=True)
class Forgotten:
    """Records with this key before these offsets were erased, and must not come back."""

    key_hash: str  # as `_kafka.key_hash`, in hex
    before: dict[int, int]


@dataclass(frozen=True)
class DroppedBefore:
    """Records older than this and before these offsets were dropped by retention."""

    before: int  # milliseconds since 1970, UTC: the start of the oldest window that was kept
    end: dict[int, int]  # what comes late, at or after these, is a row until the next retention

    def covers_all_of(self, other: DroppedBefore) -> bool:
        ends = (self.end.get(partition, 0) >= offset for partition, offset in other.end.items())
        return self.before >= other.before and all(ends)


@dataclass(frozen=True)
class Entry:
    """What one commit brought: offsets [start, end) per Kafka partition, and where they are from."""

    topic: str
    cluster_id: str
    topic_id: str
    origin: dict[int, int]  # the first offset that the table ever read
    start: dict[int, int]
    end: dict[int, int]
    schema_ids: tuple[int, ...] = ()
    run_id: str = ""
    kind: Kind = "records"
    # Which rebuild the rows come from; "" for the first. Dead letters of another do not count.
    lineage: str = ""
    lost: tuple[tuple[int, int, int], ...] = ()  # partition, and [from, to) that expired unread
    forgotten: tuple[Forgotten, ...] = ()
    # Dead letters with one of these in `replay_id` have become rows. No other says so.
    replays: tuple[str, ...] = ()
    replaying: str = ""  # the one replay that may be the next of them
    dropped: tuple[DroppedBefore, ...] = ()
    # Of a product, which reads tables and no log: the snapshots that its rows are made of, by table, what
    # they are made with, and the columns that rows from before may lack.
    inputs: dict[str, int] = field(default_factory=dict)
    statement: str = ""
    added_columns: tuple[str, ...] = ()

    def to_property(self) -> str:
        told = asdict(self)
        if self.kind != "product":
            for name in ("inputs", "statement", "added_columns"):
                del told[name]
        return json.dumps(told, separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_property(cls, text: str) -> Entry:
        known = json.loads(text)
        for name in ("origin", "start", "end"):
            known[name] = _by_partition(known[name])
        known["schema_ids"] = tuple(known["schema_ids"])
        known["lost"] = tuple(tuple(lost) for lost in known.get("lost", ()))
        known["forgotten"] = tuple(
            Forgotten(one["key_hash"], _by_partition(one["before"]))
            for one in known.get("forgotten", ())
        )
        known["replays"] = tuple(known.get("replays", ()))
        known["added_columns"] = tuple(known.get("added_columns", ()))
        known["dropped"] = tuple(
            DroppedBefore(one["before"], _by_partition(one["end"]))
            for one in known.get("dropped", ())
        )
        return cls(**known)


def _by_partition(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}  # JSON's keys are text


@dataclass(frozen=True)
class Ledger:
    """The newest entry, and the snapshot that a next commit must build on."""

    entry: Entry
    committed_at_ms: int
    head: int

    @property
    def committed(self) -> dict[int, int]:
        return self.entry.end

    @property
    def origin(self) -> dict[int, int]:
        return self.entry.origin

    @property
    def cluster_id(self) -> str:
        return self.entry.cluster_id

    @property
    def topic_id(self) -> str:
        return self.entry.topic_id


def read_ledger(table: Table, ref: str = MAIN_BRANCH) -> Ledger:
    """Walk back from the newest snapshot to the newest entry.

    Compaction rewrites files without changing rows, so its snapshots are passed over. Any other
    snapshot without an entry means that somebody else changed the rows: then nothing can be
    promised about the table any more, and we say so instead of guessing.
    """
    head = table.snapshot_by_name(ref)
    if head is None:
        raise _unreadable(table, "it has no snapshot")
    for snapshot in ancestors(table, head):
        if (text := _property(snapshot)) is not None:
            return Ledger(Entry.from_property(text), snapshot.timestamp_ms, head.snapshot_id)
        if snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE:
            raise _unreadable(
                table, f"snapshot {snapshot.snapshot_id} was not written by Tableflow Assets"
            )
    # The way back is broken: several compactions in a row, the first of them expired.
    tagged = table.snapshot_by_name(TAG)
    if tagged is None or not _has_the_rows_of(head, tagged) or not (text := _property(tagged)):
        raise _unreadable(table, "the snapshots that held it have expired")
    return Ledger(Entry.from_property(text), tagged.timestamp_ms, head.snapshot_id)


def read_entries(table: Table) -> list[tuple[Snapshot, Entry]]:
    """All entries that the table still holds, newest first."""
    head = table.current_snapshot()
    return [
        (snapshot, Entry.from_property(text))
        for snapshot in (ancestors(table, head) if head else ())
        if (text := _property(snapshot)) is not None
    ]


def all_entries(table: Table) -> list[Entry]:
    """Of every snapshot that somebody could still go back to, also beside the way to the newest."""
    found = map(_property, table.snapshots())
    return [Entry.from_property(text) for text in found if text is not None]


def ancestors(table: Table, head: Snapshot) -> Iterator[Snapshot]:
    current: Snapshot | None = head
    while current is not None:
        yield current
        parent = current.parent_snapshot_id
        current = table.snapshot_by_id(parent) if parent is not None else None


def _has_the_rows_of(head: Snapshot, tagged: Snapshot) -> bool:
    """Whether compaction alone can have made one of the other: as many rows, and no deletes.

    The table may have been rolled back before it was compacted: then it has fewer rows. With
    deletes in play equal counts prove nothing.
    """
    counts = [total(snapshot, "total-records") for snapshot in (head, tagged)]
    deletes = [total(snapshot, "total-delete-files") for snapshot in (head, tagged)]
    return counts[0] == counts[1] and deletes == [0, 0]


def total(snapshot: Snapshot, name: str) -> int:
    """A number of the snapshot's summary."""
    return int(snapshot.summary.additional_properties.get(name, 0)) if snapshot.summary else 0


def _property(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None


def _unreadable(table: Table, why: str) -> LedgerError:
    name = ".".join(table.name())
    return LedgerError(
        f"The ledger of {name} cannot be read: {why}.",
        "Roll the table back to a snapshot of Tableflow Assets, then `tableflow resume`: the rest is"
        " read again. Or replace all rows from the log with `tableflow rebuild`.",
    )
