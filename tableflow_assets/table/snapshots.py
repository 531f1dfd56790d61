"""What a snapshot's summary says about it."""

from __future__ import annotations

from collections.abc import Iterable

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot

from tableflow_assets.table.ledger import PROPERTY, Entry, total

# Followed by its time: the tag of a state that stayed when those around it were thinned out.
KEPT = "tableflow_kept"
NAMES = {"window": "window rebuild", "origin": "created"}  # for people; other kinds name themselves


def entry_of(snapshot: Snapshot) -> Entry | None:
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    text = properties.get(PROPERTY)
    return None if text is None else Entry.from_property(text)


def has_entry(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and PROPERTY in snapshot.summary.additional_properties


def is_compaction(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def is_state(snapshot: Snapshot) -> bool:
    """Whether readers ever saw it: a commit with keys takes two snapshots and shows only the second."""
    return has_entry(snapshot) or is_compaction(snapshot)


def tags_of(table: Table) -> dict[str, int]:
    refs = table.metadata.refs.items()
    return {
        name: ref.snapshot_id for name, ref in refs if ref.snapshot_ref_type == SnapshotRefType.TAG
    }


def kept_states(table: Table) -> set[int]:
    """States that a tag of ours keeps, while the snapshots between them have expired."""
    return {at for name, at in tags_of(table).items() if name.startswith(f"{KEPT}_")}


def rows_in(snapshot: Snapshot) -> int:
    """The rows written, less those marked as deleted since."""
    return total(snapshot, "total-records") - total(snapshot, "total-position-deletes")


def operation_of(snapshot: Snapshot, before: Snapshot | None) -> str:
    """What made it, in a word; ``before``: the state it replaced."""
    if (entry := entry_of(snapshot)) is not None:
        previous_entry = entry_of(before) if before else None
        lineages = {entry.lineage, *(epoch.lineage for epoch in entry.earlier)}
        is_rebuild = previous_entry is not None and previous_entry.lineage not in lineages
        return "rebuild" if is_rebuild else NAMES.get(entry.kind, entry.kind)
    if is_compaction(snapshot):
        files = ("added-data-files", "deleted-data-files", "removed-delete-files")
        return "compaction" if total_of([snapshot], *files) else "manifests"
    operation = snapshot.summary.operation.value if snapshot.summary else "change"
    return f"{operation}, not by Tableflow"


def total_of(snapshots: Iterable[Snapshot], *names: str) -> int:
    return sum(total(snapshot, name) for snapshot in snapshots for name in names)


def total_now(table: Table, name: str) -> int:
    """Of the table as it is."""
    snapshot = table.current_snapshot()
    return total(snapshot, name) if snapshot else 0
