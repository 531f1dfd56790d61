"""What an Iceberg snapshot holds, or changed: its data files, and the rows marked as deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.table.snapshots import is_compaction, is_state


@dataclass
class SnapshotChanges:
    """What changed from one state of the table to a later one. Files by their full paths."""

    added: dict[str, DataFile] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    deleted_rows: dict[str, BitMap64] = field(default_factory=dict)
    changes_rows: bool = False  # compaction does not

    def follow(self, snapshot: Snapshot, io: FileIO) -> None:
        for entry in _written_by(snapshot, io):
            file = entry.data_file
            if file.content == DataFileContent.DATA:
                self._data_file(file, entry.status)
            elif entry.status == ManifestEntryStatus.ADDED:
                _mark(self.deleted_rows, file, io)
        self.changes_rows |= not is_compaction(snapshot)

    def _data_file(self, file: DataFile, status: ManifestEntryStatus) -> None:
        path = file.file_path
        if status == ManifestEntryStatus.ADDED:
            self.added[path] = file
            self.removed.discard(path)
        elif self.added.pop(path, None) is None:
            self.removed.add(path)


@dataclass
class Content:
    """All that a snapshot holds. ``deleted_rows`` by the path of the data file."""

    files: dict[str, DataFile] = field(default_factory=dict)
    deleted_rows: dict[str, BitMap64] = field(default_factory=dict)


def content_of(snapshot: Snapshot, io: FileIO) -> Content:
    content = Content()
    for manifest in snapshot.manifests(io):
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=True):
            if entry.data_file.content == DataFileContent.DATA:
                content.files[entry.data_file.file_path] = entry.data_file
            else:
                _mark(content.deleted_rows, entry.data_file, io)
    # Delete files may outlive the data files they refer to.
    content.deleted_rows = {
        path: rows for path, rows in content.deleted_rows.items() if path in content.files
    }
    return content


def states_since(table: Table, mirrored: int, head: Snapshot) -> list[list[Snapshot]] | None:
    """The steps from one state of the table to its head, oldest first; None if it is no ancestor.

    A step has several snapshots where a commit needed more than one, as for a table with keys or a
    rebuild: only the last of them was ever the table's current one.
    """
    steps: list[list[Snapshot]] = []
    was_current = {entry.snapshot_id for entry in table.metadata.snapshot_log}
    log_begins = min((entry.timestamp_ms for entry in table.metadata.snapshot_log), default=0)
    snapshot: Snapshot | None = head
    while snapshot is not None and snapshot.snapshot_id != mirrored:
        # Catalogs may truncate their log when snapshots expire. Before it begins, go by our entries.
        is_older = snapshot.timestamp_ms < log_begins
        was_a_state = is_state(snapshot) if is_older else snapshot.snapshot_id in was_current
        if snapshot is head or was_a_state:
            steps.append([])
        steps[-1].append(snapshot)
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    if snapshot is None:
        return None
    return [step[::-1] for step in steps[::-1]]


def _written_by(snapshot: Snapshot, io: FileIO) -> Iterator[ManifestEntry]:
    for manifest in snapshot.manifests(io):
        if manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
            # A manifest may have been merged with older ones, whose files are not new.
            if entry.status != ManifestEntryStatus.EXISTING and entry.snapshot_id in (
                None,
                snapshot.snapshot_id,
            ):
                yield entry


def _mark(deleted_rows: dict[str, BitMap64], file: DataFile, io: FileIO) -> None:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    is_ours = file.content == DataFileContent.POSITION_DELETES
    if not is_ours or file.file_format != FileFormat.PARQUET:
        raise MirrorError(
            f"{file.file_path} deletes rows in a way that no writer of ours does.",
            "Compact the table (`tableflow maintenance compact`), then mirror it again.",
        )
    with io.new_input(file.file_path).open() as stream:
        marks = pq.read_table(stream, columns=["file_path", "pos"])
    for path in pc.unique(marks["file_path"]).to_pylist():
        positions: Any = marks.filter(pc.equal(marks["file_path"], path))["pos"]
        deleted_rows.setdefault(path, BitMap64()).update(_as_ints(positions))


def _as_ints(positions: Any) -> Iterable[int]:
    return positions.to_numpy().tolist()  # type: ignore[no-any-return]
