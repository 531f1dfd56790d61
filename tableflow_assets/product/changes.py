"""Which rows of a table were added or removed between two of its snapshots.

Spark reads appended rows, from the appended files alone. Rows that were marked as deleted are read here, by
their positions, since no engine reads deleted rows. Compaction changes no row. After anything else (a
rollback, retention, an erased key, a window read again) only one answer is safe: any row may have changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.table.ledger import ancestors, total
from tableflow_assets.table.snapshots import is_compaction

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class RowChanges:
    """Since a snapshot. ``removed``: the requested columns of the removed rows; None if there are none."""

    has_added: bool = False
    removed: pa.Table | None = None

    @property
    def is_empty(self) -> bool:
        return not self.has_added and self.removed is None


def changes_between(
    table: Table, since: int, until: int, columns: Sequence[str]
) -> RowChanges | None:
    """None: any row may have changed."""
    path = _path(table, since, until)
    if path is None:
        return None
    writes = [snapshot for snapshot in path if not is_compaction(snapshot)]
    if any(
        total(snapshot, "deleted-data-files") or _has_equality_deletes(snapshot)
        for snapshot in writes
    ):
        return None
    removed_rows = _removed_rows(table, writes, columns)
    return RowChanges(
        has_added=any(total(snapshot, "added-records") for snapshot in writes),
        removed=removed_rows if removed_rows.num_rows else None,
    )


def _path(table: Table, since: int, until: int) -> list[Snapshot] | None:
    """The snapshots after ``since`` up to ``until``; None if ``since`` is no longer an ancestor."""
    head = table.snapshot_by_id(until)
    snapshots: list[Snapshot] = []
    for snapshot in ancestors(table, head) if head else ():
        if snapshot.snapshot_id == since:
            return snapshots
        snapshots.append(snapshot)
    return None


def _has_equality_deletes(snapshot: Snapshot) -> bool:
    return total(snapshot, "added-equality-deletes") > 0


def _removed_rows(table: Table, writes: Sequence[Snapshot], columns: Sequence[str]) -> pa.Table:
    """The rows that the snapshots have marked as deleted, in whatever files."""
    places: dict[str, set[int]] = defaultdict(set)
    for path, position in _marks(table, writes):
        places[path].add(position)
    schema = table.schema().select(*columns)
    parts = [_rows_at(table, path, sorted(at), schema) for path, at in places.items()]
    return pa.concat_tables(parts) if parts else schema_to_pyarrow(schema).empty_table()


def _marks(table: Table, writes: Sequence[Snapshot]) -> Iterator[tuple[str, int]]:
    for snapshot in writes:
        if not total(snapshot, "added-position-deletes"):
            continue
        for manifest in snapshot.manifests(table.io):
            is_new = manifest.added_snapshot_id == snapshot.snapshot_id
            if manifest.content != ManifestContent.DELETES or not is_new:
                continue
            for entry in manifest.fetch_manifest_entry(table.io):
                is_mark = entry.data_file.content == DataFileContent.POSITION_DELETES
                if entry.status == ManifestEntryStatus.ADDED and is_mark:
                    with table.io.new_input(entry.data_file.file_path).open() as stream:
                        marks = pq.ParquetFile(stream).read(columns=["file_path", "pos"])
                    yield from zip(
                        marks["file_path"].to_pylist(), marks["pos"].to_pylist(), strict=True
                    )


def _rows_at(table: Table, path: str, positions: list[int], schema: Schema) -> pa.Table:
    """By field id: column names in files may differ from the table's."""
    arrow_schema = schema_to_pyarrow(schema, include_field_ids=False)
    with table.io.new_input(path).open() as stream:
        parquet = pq.ParquetFile(stream)
        names = {
            int(field.metadata[FIELD_ID]): field.name
            for field in parquet.schema_arrow
            if field.metadata and FIELD_ID in field.metadata
        }
        names_here = [names[field.field_id] for field in schema.fields if field.field_id in names]
        rows = parquet.read(columns=names_here).take(positions)
    columns = [
        rows[names[field.field_id]].cast(kind.type)
        if field.field_id in names
        else pa.nulls(len(positions), kind.type)
        for field, kind in zip(schema.fields, arrow_schema, strict=True)
    ]
    return pa.table(columns, schema=arrow_schema)
