"""The table as its own ledger: which offsets its rows come from, told by its snapshots.

Every commit writes one entry, as a property of the snapshot that adds the rows. So entry and rows
appear together, disappear together in a rollback, and nothing else needs to be believed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from tableflow_assets.errors import LedgerError

PROPERTY = "tableflow.ledger"


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

    def to_property(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_property(cls, text: str) -> Entry:
        known = json.loads(text)
        for name in ("origin", "start", "end"):  # JSON has no integer keys
            known[name] = {int(partition): offset for partition, offset in known[name].items()}
        return cls(**known | {"schema_ids": tuple(known["schema_ids"])})


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


def read_ledger(table: Table) -> Ledger:
    """Walk back from the current snapshot to the newest entry.

    Compaction rewrites files without changing rows, so its snapshots are passed over. Any other
    snapshot without an entry means that somebody else changed the rows: then nothing can be
    promised about the table any more, and we say so instead of guessing.
    """
    head = table.current_snapshot()
    if head is None:
        raise _unreadable(table, "it has no snapshot")
    for snapshot in _ancestors(table, head):
        if (text := _property(snapshot)) is not None:
            return Ledger(Entry.from_property(text), snapshot.timestamp_ms, head.snapshot_id)
        if snapshot.summary is None or snapshot.summary.operation != Operation.REPLACE:
            raise _unreadable(
                table, f"snapshot {snapshot.snapshot_id} was not written by Tableflow Assets"
            )
    raise _unreadable(table, "the snapshots that held it have expired")


def _ancestors(table: Table, head: Snapshot) -> Iterator[Snapshot]:
    current: Snapshot | None = head
    while current is not None:
        yield current
        parent = current.parent_snapshot_id
        current = table.snapshot_by_id(parent) if parent is not None else None


def _property(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(PROPERTY) if snapshot.summary else None


def _unreadable(table: Table, why: str) -> LedgerError:
    name = ".".join(table.name())
    return LedgerError(
        f"The ledger of {name} cannot be read: {why}.",
        "Roll the table back to a snapshot of Tableflow Assets; the next run reads the rest again.",
    )
