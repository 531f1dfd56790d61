"""Marks rows as deleted by their position in the table's files, at no other cost than the marks.

Spark's own DELETE would scan the table again to find the positions, which are known here.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestWriter,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.change import change_table

# The columns of such files, with the ids that Iceberg reserves for them.
PATH_ID, POSITION_ID = 2147483546, 2147483545
_FILE_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)}),
    ]
)


def mark_deleted(catalog: RestCatalog, table: Table, branch: str, places: pa.Table) -> None:
    """One snapshot on the branch. ``places``: columns `_file`, `_pos`, and the row's `key_hash`.

    The files must have the partitioning of ``table`` as it was loaded, by the key's hash.
    """
    spec = table.spec()  # before the refresh: a rebuild may have changed the layout since
    catalog.ask(table.refresh)
    (field,) = spec.fields
    bucket_of = field.transform.pyarrow_transform(table.schema().find_type(field.source_id))
    buckets = bucket_of(places["key_hash"].combine_chunks())
    marks = [
        _write(table, spec, bucket, places.filter(pc.equal(buckets, bucket)))
        for bucket in buckets.unique().to_pylist()
    ]

    def commit() -> None:
        with (
            table.transaction() as transaction,
            _MarkRows(Operation.DELETE, transaction, table.io, branch=branch) as update,
        ):
            for mark in marks:
                update.append_data_file(mark)

    change_table(catalog, table, commit)


def _write(table: Table, spec: PartitionSpec, bucket: int, places: pa.Table) -> DataFile:
    ordered = places.sort_by([("_file", "ascending"), ("_pos", "ascending")])
    marks = pa.table([ordered["_file"], ordered["_pos"]], schema=_FILE_SCHEMA)
    name = f"{uuid.uuid4()}-deletes.parquet"
    output = table.io.new_output(table.location_provider().new_data_location(name))
    with output.create() as stream:
        pq.write_table(marks, stream, compression="zstd")
    first, last = (marks["file_path"][place].as_py().encode() for place in (0, -1))
    mark = DataFile.from_args(
        content=DataFileContent.POSITION_DELETES,
        file_path=output.location,
        file_format=FileFormat.PARQUET,
        partition=Record(bucket),
        record_count=marks.num_rows,
        file_size_in_bytes=len(output),
        # So that readers open it only for the data files in between.
        lower_bounds={PATH_ID: first},
        upper_bounds={PATH_ID: last},
    )
    mark.spec_id = spec.spec_id
    return mark


class _DeleteManifest(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return super()._meta | {"content": "deletes"}


class _MarkRows(_FastAppendFiles):
    def new_manifest_writer(self, spec: PartitionSpec) -> ManifestWriter:
        return _DeleteManifest(
            spec, self.schema(), self.new_manifest_output(), self._snapshot_id, self._compression
        )
