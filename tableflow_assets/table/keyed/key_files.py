"""Which files of a table hold a key, looked up in the files themselves.

Not in a query: rows that a merge-on-read table has marked as deleted, and files that no snapshot
refers to any more, are in the object store all the same.
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
Row = dict[str, Any]  # partition, offset, and topic_id where the table has it


@dataclass(frozen=True)
class Key:
    """``spellings``: the bytes that it has, by schema version; ``hashes``: of them and their content."""

    spellings: frozenset[bytes] = field(repr=False)
    hashes: frozenset[str]


class KeyFiles:
    """Parquet files under a table's location, by their name in the store (bucket and path)."""

    def __init__(self, table: Table, key: Key, place: str) -> None:
        """``place``: in front of the columns `key`, `partition` and so on, as `_kafka.`"""
        self._table, self._place = table, place
        self._spellings = sorted(key.spellings)
        self._hashes = [bytes.fromhex(one) for one in sorted(key.hashes)]
        self._folder = PyArrowFileIO.parse_location(table.location())[2]
        self._store = arrow_store(table)

    def listed(self, suffix: str = ".parquet") -> set[str]:
        """All that are there, whether a snapshot refers to them or not."""
        everything = pa_fs.FileSelector(self._folder, recursive=True, allow_not_found=True)
        found = self._store.get_file_info(everything)
        return {
            one.path
            for one in found
            # The checkpoints of a Delta log are Parquet too, and hold no rows.
            if one.is_file and one.path.endswith(suffix) and f"/{DELTA_LOG}/" not in one.path
        }

    def of(self, snapshots: Iterable[Snapshot], *, and_removed: bool = False) -> set[str]:
        """The data files of these snapshots; on request also those that their metadata remembers."""
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

        In this order: a manifest that some run is about to commit names only files that are there.
        """
        listed, existing = self.listed(".avro"), self.listed()
        snapshots = self._table.refresh().snapshots()
        referred = {_name(manifest.manifest_path) for manifest in self._manifests(snapshots)}
        referred |= {_name(snapshot.manifest_list) for snapshot in snapshots}

        def is_stray(file: str) -> bool:
            names = {name for name in self._named_by(file) if name.startswith(f"{self._folder}/")}
            return not names <= existing

        return {file for file in listed - referred if is_stray(file)}

    def _manifests(self, snapshots: Iterable[Snapshot]) -> list[ManifestFile]:
        io = self._table.io
        return list({m.manifest_path: m for one in snapshots for m in one.manifests(io)}.values())

    def _named_by(self, manifest: str) -> set[str]:
        try:
            with self._store.open_input_file(manifest) as opened:
                entries: list[Any] = list(fastavro.reader(opened))
        except FileNotFoundError:
            return set()
        files = (
            _name(entry["data_file"]["file_path"]) for entry in entries if "data_file" in entry
        )
        return {file for file in files if file.endswith(".parquet")}

    def holding(
        self, files: Iterable[str], counts: Callable[[Row], bool] = lambda _: True
    ) -> set[str]:
        """Of the files, those with at least one row of the key that counts."""

        def holds(file: str) -> bool:
            return any(counts(row) for row in self._rows(file))

        files = sorted(files)
        with ThreadPoolExecutor(READERS) as readers:
            return {file for file, yes in zip(files, readers.map(holds, files), strict=True) if yes}

    def delete(self, files: Iterable[str], storage: S3Connection) -> None:
        # Not by Arrow: it would put markers for folders in the files' places.
        below = f"{self._folder}/"
        store_at(self._table.location(), storage).delete(file.removeprefix(below) for file in files)

    def _rows(self, file: str) -> Iterator[Row]:
        wanted = {f"{self._place}{name}" for name in ("key", "key_hash", *_WHERE)}
        try:
            with self._store.open_input_file(file) as opened:
                parquet = pq.ParquetFile(opened)
                columns = [c.path for c in map(parquet.schema.column, range(len(parquet.schema)))]
                for batch in parquet.iter_batches(columns=[c for c in columns if c in wanted]):
                    yield from self._rows_of_key(pa.Table.from_batches([batch]))
        except FileNotFoundError:  # expired meanwhile
            return

    def _rows_of_key(self, batch: pa.Table) -> list[Row]:
        if self._place:
            batch = batch.flatten()
        batch = batch.rename_columns([c.removeprefix(self._place) for c in batch.column_names])
        is_it = pa.repeat(pa.scalar(False), batch.num_rows)
        for column, values in (("key", self._spellings), ("key_hash", self._hashes)):
            if column in batch.column_names:
                known = batch[column].combine_chunks()
                is_one = pc.is_in(known, value_set=pa.array(values, type=known.type))
                is_it = pc.or_(is_it, is_one)
        where = [name for name in _WHERE if name in batch.column_names]
        return batch.filter(is_it).select(where).to_pylist()  # type: ignore[no-any-return]


_WHERE = ("partition", "offset", "topic_id")


def _name(location: str) -> str:
    return PyArrowFileIO.parse_location(location)[2]
