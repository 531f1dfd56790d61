"""Which files of a table hold a key, looked up in the files themselves.

Not by a query: rows that a merge-on-read table has marked as deleted, and files that no snapshot refers
to any more, are still in the object store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.lake.file_io import arrow_store
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.table.delta.log import FOLDER as DELTA_LOG
from tableflow_assets.table.delta.store import store_at

READERS = 8
Row = dict[str, Any]  # partition and offset; epoch, topic_id and lineage where the table has them


@dataclass(frozen=True)
class Key:
    """``spellings``: its bytes under each schema version; ``hashes``: of those and of their content."""

    spellings: frozenset[bytes] = field(repr=False)
    hashes: frozenset[str]


class KeyFiles:
    """Parquet files under a table's location, by their name in the store (bucket and path)."""

    def __init__(self, table: Table, key: Key, column_prefix: str) -> None:
        """``column_prefix``: of the columns `key`, `partition` and so on, such as `_kafka.`"""
        self._table, self._column_prefix = table, column_prefix
        self._spellings = sorted(key.spellings)
        self._hashes = [bytes.fromhex(text) for text in sorted(key.hashes)]
        self._folder = PyArrowFileIO.parse_location(table.location())[2]
        self._store = arrow_store(table)

    def in_store(self, suffix: str = ".parquet") -> set[str]:
        """All files in the store, whether a snapshot refers to them or not."""
        folder = pa_fs.FileSelector(self._folder, recursive=True, allow_not_found=True)
        files = self._store.get_file_info(folder)
        return {
            file.path
            for file in files
            # The checkpoints of a Delta log are Parquet too, and hold no rows.
            if file.is_file and file.path.endswith(suffix) and f"/{DELTA_LOG}/" not in file.path
        }

    def of(self, snapshots: Iterable[Snapshot], *, and_removed: bool = False) -> set[str]:
        """The data files of these snapshots; on request also those they have removed."""
        return {
            _name(entry.data_file.file_path)
            for manifest in self._manifests(snapshots)
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(
                self._table.io, discard_deleted=not and_removed
            )
        }

    def stray_manifests(self) -> set[str]:
        """Metadata of files that are gone, left by an expiry that was killed.

        Manifests are listed before data files: one that a run is about to commit then names only files
        that are listed too.
        """
        manifests, data_files = self.in_store(".avro"), self.in_store()
        snapshots = self._table.refresh().snapshots()
        referred = {_name(manifest.manifest_path) for manifest in self._manifests(snapshots)}
        referred |= {_name(snapshot.manifest_list) for snapshot in snapshots}

        def is_stray(file: str) -> bool:
            names = {name for name in self._named_by(file) if name.startswith(f"{self._folder}/")}
            return not names <= data_files

        return {file for file in manifests - referred if is_stray(file)}

    def _manifests(self, snapshots: Iterable[Snapshot]) -> list[ManifestFile]:
        io = self._table.io
        return list(
            {m.manifest_path: m for snapshot in snapshots for m in snapshot.manifests(io)}.values()
        )

    def _named_by(self, manifest: str) -> set[str]:
        try:
            with self._store.open_input_file(manifest) as stream:
                entries: list[Any] = list(fastavro.reader(stream))
        except FileNotFoundError:
            return set()
        files = (
            _name(entry["data_file"]["file_path"]) for entry in entries if "data_file" in entry
        )
        return {file for file in files if file.endswith(".parquet")}

    def holding(
        self, files: Iterable[str], counts: Callable[[Row], bool] = lambda _: True
    ) -> set[str]:
        """The files with at least one row of the key that counts."""

        def holds(file: str) -> bool:
            return any(counts(row) for row in self._rows(file))

        files = sorted(files)
        with ThreadPoolExecutor(READERS) as readers:
            return {file for file, yes in zip(files, readers.map(holds, files), strict=True) if yes}

    def delete(self, files: Iterable[str], storage: S3Connection) -> None:
        # Not by Arrow: it would leave folder markers in place of the files.
        below = f"{self._folder}/"
        store_at(self._table.location(), storage).delete(file.removeprefix(below) for file in files)

    def _rows(self, file: str) -> Iterator[Row]:
        needed = {f"{self._column_prefix}{name}" for name in ("key", "key_hash", *_WHERE)}
        try:
            with self._store.open_input_file(file) as stream:
                parquet = pq.ParquetFile(stream)
                columns = [c.path for c in map(parquet.schema.column, range(len(parquet.schema)))]
                for batch in parquet.iter_batches(columns=[c for c in columns if c in needed]):
                    yield from self._rows_of_key(pa.Table.from_batches([batch]))
        except FileNotFoundError:  # expired meanwhile
            return

    def _rows_of_key(self, batch: pa.Table) -> list[Row]:
        if self._column_prefix:
            batch = batch.flatten()
        batch = batch.rename_columns(
            [c.removeprefix(self._column_prefix) for c in batch.column_names]
        )
        is_key = pa.repeat(pa.scalar(False), batch.num_rows)
        for column, values in (("key", self._spellings), ("key_hash", self._hashes)):
            if column in batch.column_names:
                keys = batch[column].combine_chunks()
                matches = pc.is_in(keys, value_set=pa.array(values, type=keys.type))
                is_key = pc.or_(is_key, matches)
        where = [name for name in _WHERE if name in batch.column_names]
        return batch.filter(is_key).select(where).to_pylist()  # type: ignore[no-any-return]


_WHERE = ("partition", "offset", "epoch", "topic_id", "lineage")


def _name(location: str) -> str:
    return PyArrowFileIO.parse_location(location)[2]
