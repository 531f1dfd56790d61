"""Files that a table refers to but the store lacks, or has only in part: deleted or truncated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.base.errors import TableDamaged
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root, topic_of


@dataclass(frozen=True)
class LostFile:
    file: DataFile
    spec_id: int  # the partitioning it was written in
    size: int | None  # in the store; None: it is not there

    @property
    def path(self) -> str:
        return self.file.file_path

    @property
    def has_rows(self) -> bool:
        """Otherwise it is a delete file."""
        return self.file.content == DataFileContent.DATA

    def __str__(self) -> str:
        if self.size is None:
            return f"{self.path} is not in the store"
        return f"{self.path} has {self.size} bytes of {self.file.file_size_in_bytes}"


def lost_files(catalog: RestCatalog, table: Table, snapshot: Snapshot) -> list[LostFile]:
    root = delta_root(table) + "/"
    # One listing instead of a request per file.
    sizes = store_at(delta_root(table), catalog.storage).sizes()
    damaged = []
    for file, spec_id in all_files(table, snapshot):
        path = file.file_path
        size = sizes.get(path.removeprefix(root)) if path.startswith(root) else _size(table, path)
        if size != file.file_size_in_bytes:
            damaged.append(LostFile(file, spec_id, size))
    return damaged


def all_files(table: Table, snapshot: Snapshot) -> Iterator[tuple[DataFile, int]]:
    """Data and delete files; each with the partitioning it was written in."""
    try:
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                yield entry.data_file, manifest.partition_spec_id
    except FileNotFoundError as error:
        topic = topic_of(table)
        raise TableDamaged(
            f"Metadata of the table of {topic!r} is gone from the store: {error}",
            f"Put it back from a copy of the bucket, or go back to a state before it: tableflow rollback"
            f" {topic}. Or replace all rows from the log: tableflow rebuild {topic}",
        ) from error


def _size(table: Table, path: str) -> int | None:
    """The size of a file elsewhere, such as one written before there were Delta logs."""
    input_file = table.io.new_input(path)
    return len(input_file) if input_file.exists() else None
