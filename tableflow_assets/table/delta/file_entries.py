"""How a version of the log names data files: added, removed, or with other rows deleted than before."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from urllib.parse import quote

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import MirrorError
from tableflow_assets.table.delta.changes import SnapshotChanges
from tableflow_assets.table.delta.log import Action, State
from tableflow_assets.table.delta.stats import StatsWriter, loosened
from tableflow_assets.table.delta.store import Store
from tableflow_assets.table.delta.vectors import read_vector, write_vectors
from tableflow_assets.table.formats import delta_root, topic_of

VECTORS = "deletionVectors"


class FileEntries:
    """``state``: of the log, which costs a read of all of it: asked for only where it is needed."""

    def __init__(self, table: Table, store: Store, state: Callable[[], State]) -> None:
        self._table, self._store, self._state = table, store, state
        self._root = delta_root(table) + "/"
        self._read_vectors = lru_cache(maxsize=16)(store.read)  # one file holds many vectors

    @cached_property
    def _stats(self) -> StatsWriter:
        return StatsWriter(self._table.schema())

    def encoded(self, path: str) -> str:
        return quote(path.removeprefix(self._root), safe="/=")

    def add(
        self, file: DataFile, at: Snapshot, vector: Action | None, changes_rows: bool
    ) -> Action:
        add: Action = {
            "path": self.encoded(file.file_path),
            "partitionValues": {},
            "size": file.file_size_in_bytes,
            "modificationTime": at.timestamp_ms,
            "dataChange": changes_rows,
            "stats": self._stats.of(file, tight=vector is None),
        }
        if vector is not None:
            add["deletionVector"] = vector
        return {"add": add}

    def is_stated(self, entry: Action, file: DataFile) -> bool:
        stats = self._stats.of(file, tight=not entry.get("deletionVector"))
        return (entry.get("size"), entry.get("stats")) == (file.file_size_in_bytes, stats)

    def add_with_vector(self, path: str, vector: Action) -> Action:
        entry = self._state().files[self.encoded(path)]
        return {
            "add": {
                "path": entry["path"],
                "partitionValues": {},
                "size": entry["size"],
                "modificationTime": entry["modificationTime"],
                "dataChange": True,
                "stats": loosened(entry["stats"]),
                "deletionVector": vector,
            }
        }

    def remove(
        self, path: str, at: Snapshot, features_so_far: Iterable[str], changes_rows: bool
    ) -> Action:
        encoded_path = self.encoded(path)
        # Only with deletion vectors does a removal need more of the file's entry than its path.
        entry = self._state().files.get(encoded_path, {}) if VECTORS in features_so_far else {}
        return removal(encoded_path, entry, at, changes_rows)

    def new_vectors(
        self, changes: SnapshotChanges, at: Snapshot, version: int
    ) -> dict[str, Action]:
        """By full path, for files with more deleted rows than before."""
        rows = {}
        for path, deleted_rows in changes.deleted_rows.items():
            entry = self._state().files.get(self.encoded(path))
            if path in changes.added:
                rows[path] = deleted_rows
            elif entry is not None and path not in changes.removed:
                earlier = self.deleted_in(entry)
                if deleted_rows - earlier:
                    rows[path] = earlier | deleted_rows
        return self.write_vectors(rows, at, version) if rows else {}

    def deleted_in(self, file: Action) -> BitMap64:
        vector = file.get("deletionVector")
        if not vector:
            return BitMap64()
        try:
            return read_vector(vector, self._read_vectors)
        except ValueError as error:
            topic = topic_of(self._table)
            raise MirrorError(
                f"The Delta log of {topic!r} is damaged: {error}.",
                f"The Iceberg table is not affected. Write the log again: tableflow repair {topic}",
            ) from error

    def write_vectors(
        self, rows: dict[str, BitMap64], at: Snapshot, version: int
    ) -> dict[str, Action]:
        of_version = uuid.uuid5(self._table.metadata.table_uuid, f"{at.snapshot_id}/{version}")
        name, content, descriptors = write_vectors(rows, of_version)
        self._store.put(name, content)
        reached("vectors_written")
        return descriptors


def removal(path: str, entry: Action, at: Snapshot, changes_rows: bool) -> Action:
    remove: Action = {
        "path": path,
        "deletionTimestamp": at.timestamp_ms,
        "dataChange": changes_rows,
    }
    if vector := entry.get("deletionVector"):
        remove["deletionVector"] = {
            key: value for key, value in vector.items() if value is not None
        }
    return {"remove": remove}
