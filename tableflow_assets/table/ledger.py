"""The table as its own ledger: its snapshots say which offsets its rows come from.

Every commit writes one entry, as a property of the snapshot that adds the rows. So entry and rows
appear together, disappear together in a rollback, and there is no second record to trust.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot

from tableflow_assets.base.errors import LedgerError, NewerFormat
from tableflow_assets.table.packed import packed, unpacked

PROPERTY = "tableflow.ledger"
# Moves with every commit, so that the newest entry's snapshot never expires: compaction's snapshots
# have no entry, and expiry would otherwise leave only those.
TAG = "tableflow_ledger"
# Of the entry as written here. An entry without one is of 0.1.0, and has no field that this one lacks.
VERSION = 1
Kind = Literal[
    "records",
    "origin",
    "window",
    "loss",
    "forget",
    "replay",
    "retention",
    "rebase",
    "product",
]


@dataclass(frozen=True)
class Forgotten:
    """Records with this key before these offsets were erased, and must not come back."""

    key_hash: str  # as `_kafka.key_hash`, in hex
    before: dict[int, int]


@dataclass(frozen=True)
class DroppedBefore:
    """Records older than this and before these offsets were dropped by retention."""

    before: int  # milliseconds since 1970, UTC: the start of the oldest remaining window
    end: dict[int, int]  # late records at or after these are rows until retention runs again

    def covers_all_of(self, drop: DroppedBefore) -> bool:
        ends = (self.end.get(partition, 0) >= offset for partition, offset in drop.end.items())
        return self.before >= drop.before and all(ends)


@dataclass(frozen=True)
class Epoch:
    """A log that the table has read in [origin, end), before it went on with the one it reads now."""

    cluster_id: str
    topic_id: str
    lineage: str
    origin: dict[int, int]
    end: dict[int, int]
    lost: tuple[tuple[int, int, int], ...] = ()  # as in an entry

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> Epoch:
        return cls(
            document["cluster_id"],
            document["topic_id"],
            document["lineage"],
            _by_partition(document["origin"]),
            _by_partition(document["end"]),
            tuple(tuple(span) for span in document.get("lost", ())),
        )


@dataclass(frozen=True)
class Entry:
    """What one commit added: offsets [start, end) per Kafka partition, and the topic they are from."""

    topic: str
    cluster_id: str
    topic_id: str
    origin: dict[int, int]  # the first offset that the table ever read
    start: dict[int, int]
    end: dict[int, int]
    schema_ids: tuple[int, ...] = ()
    run_id: str = ""
    kind: Kind = "records"
    # Which rebuild or rebase the rows come from; "" before any. Dead letters of another lineage do not
    # count.
    lineage: str = ""
    # The logs before this one, oldest first. All offsets in an entry are of the current log alone.
    earlier: tuple[Epoch, ...] = ()
    lost: tuple[tuple[int, int, int], ...] = ()  # partition, and [from, to) that expired unread
    forgotten: tuple[Forgotten, ...] = ()
    # Dead letters whose `replay_id` is one of these have become rows. Nothing else records that.
    replays: tuple[str, ...] = ()
    replaying: str = ""  # the only replay that may be added to them next
    dropped: tuple[DroppedBefore, ...] = ()
    # For a product, which reads tables instead of a log: the snapshot it read of each table, the
    # statement that made its rows, and the columns that older rows may lack.
    inputs: dict[str, int] = field(default_factory=dict)
    statement: str = ""
    added_columns: tuple[str, ...] = ()

    @property
    def epoch(self) -> int:
        """The number of the current log: rows from it have this in `_kafka.epoch` (0: NULL)."""
        return len(self.earlier)

    @property
    def as_epoch(self) -> Epoch:
        """The current log, as entries name it once the table has gone on with another."""
        return Epoch(self.cluster_id, self.topic_id, self.lineage, self.origin, self.end, self.lost)

    @property
    def read(self) -> dict[int, tuple[int, int]]:
        """The offsets [start, end) that this commit has read: only of partitions with new ones."""
        ranges = {p: (self.start.get(p, 0), end) for p, end in sorted(self.end.items())}
        return {p: (start, end) for p, (start, end) in ranges.items() if end > start}

    def to_property(self) -> str:
        document = asdict(self)
        if self.kind != "product":
            for name in ("inputs", "statement", "added_columns"):
                del document[name]
        if not self.earlier:  # then versions that know no epochs can read the entry
            del document["earlier"]
        document["version"] = VERSION
        return packed(json.dumps(document, separators=(",", ":"), sort_keys=True))

    @classmethod
    def from_property(cls, text: str) -> Entry:
        document = _readable(json.loads(unpacked(text)))
        for name in ("origin", "start", "end"):
            document[name] = _by_partition(document[name])
        document["schema_ids"] = tuple(document["schema_ids"])
        document["lost"] = tuple(tuple(span) for span in document.get("lost", ()))
        document["forgotten"] = tuple(
            Forgotten(erased["key_hash"], _by_partition(erased["before"]))
            for erased in document.get("forgotten", ())
        )
        document["earlier"] = tuple(map(Epoch.from_document, document.get("earlier", ())))
        document["replays"] = tuple(document.get("replays", ()))
        document["added_columns"] = tuple(document.get("added_columns", ()))
        document["dropped"] = tuple(
            DroppedBefore(drop["before"], _by_partition(drop["end"]))
            for drop in document.get("dropped", ())
        )
        return cls(**document)


def _readable(document: dict[str, Any]) -> dict[str, Any]:
    """The entry without its version. Newer ones are refused: to ignore a field could lose rows."""
    version = document.pop("version", 0)
    unknown = sorted(document.keys() - Entry.__dataclass_fields__.keys())
    if version > VERSION or unknown:
        detail = (
            f"version {version}, fields {', '.join(unknown)}" if unknown else f"version {version}"
        )
        raise NewerFormat("The table's ledger entry", f"{detail}; this one knows version {VERSION}")
    return document


def _by_partition(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}  # JSON's keys are text


@dataclass(frozen=True)
class Ledger:
    """The newest entry, and the snapshot that the next commit must build on."""

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

    Compaction rewrites files without changing rows, so its snapshots are skipped. Any other snapshot
    without an entry means that somebody else changed the rows: then the ledger no longer describes
    the table, and we raise instead of guessing.
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
    # The chain is broken: several compactions in a row, and the first of them has expired.
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


def newest_entry(table: Table) -> Entry | None:
    """Even if others have written since; None if the table holds none."""
    head = table.current_snapshot()
    texts = map(_property, ancestors(table, head) if head else ())
    return next((Entry.from_property(text) for text in texts if text is not None), None)


def all_entries(table: Table) -> list[Entry]:
    """The entries of all snapshots a rollback could still reach, on any branch."""
    texts = map(_property, table.snapshots())
    return [Entry.from_property(text) for text in texts if text is not None]


def ancestors(table: Table, head: Snapshot) -> Iterator[Snapshot]:
    current: Snapshot | None = head
    while current is not None:
        yield current
        parent = current.parent_snapshot_id
        current = table.snapshot_by_id(parent) if parent is not None else None


def _has_the_rows_of(head: Snapshot, tagged: Snapshot) -> bool:
    """Whether only compaction can lie between the two: the same number of rows, and no deletes.

    A table that was rolled back before it was compacted has fewer rows. Where there are deletes,
    equal counts prove nothing.
    """
    counts = [total(snapshot, "total-records") for snapshot in (head, tagged)]
    deletes = [total(snapshot, "total-delete-files") for snapshot in (head, tagged)]
    return counts[0] == counts[1] and deletes == [0, 0]


def total(snapshot: Snapshot, name: str) -> int:
    """A number from the snapshot's summary."""
    return int(snapshot.summary.additional_properties.get(name, 0)) if snapshot.summary else 0


def has_entry(snapshot: Snapshot) -> bool:
    return _property(snapshot) is not None


def _property(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None


def _unreadable(table: Table, why: str) -> LedgerError:
    name = ".".join(table.name())
    return LedgerError(
        f"The ledger of {name} cannot be read: {why}.",
        "Roll the table back to a snapshot of Tableflow Assets, then `tableflow resume`: the rest is"
        " read again. Or replace all rows from the log, if it still holds them, with `tableflow rebuild`.",
    )
