"""The files in a table's folders, as the object store lists them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.file_io import arrow_store
from tableflow_assets.table.delta.log import FOLDER as DELTA_LOG
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.delta.vectors import FOLDER as VECTORS
from tableflow_assets.table.formats import delta_root

# In the metadata folder a catalog may keep files that the format does not know.
ICEBERGS_METADATA = re.compile(r".*\.(avro|metadata\.json|stats|puffin)")


@dataclass(frozen=True)
class StoredFile:
    file: str  # in the object store: bucket and path
    bytes: int
    modified: datetime


def stored_files(table: Table) -> Iterator[StoredFile]:
    """Data and metadata, without the folders of the Delta log itself."""
    root = _root(table)
    delta = name_in_store(delta_root(table))
    not_ours = (f"{delta}/{DELTA_LOG}/", f"{delta}/{VECTORS}/")
    # A data folder elsewhere may hold the files of other tables too.
    data = {f"{root}/data", *([delta] if delta.startswith(f"{root}/") else ())}
    for folder in data:
        yield from (f for f in _files_in(table, folder) if not f.file.startswith(not_ours))
    yield from stored_metadata(table)


def stored_metadata(table: Table) -> Iterator[StoredFile]:
    for stored in _files_in(table, f"{_root(table)}/metadata"):
        if ICEBERGS_METADATA.fullmatch(stored.file):
            yield stored


def remove(catalog: RestCatalog, table: Table, files: Iterable[StoredFile]) -> None:
    root = _root(table) + "/"
    store = store_at(table.location(), catalog.storage)
    store.delete([stored.file.removeprefix(root) for stored in files])


def name_in_store(location: str) -> str:
    from pyiceberg.io.pyarrow import PyArrowFileIO  # slow to load, and to look at health takes none

    return PyArrowFileIO.parse_location(location)[2]


def _files_in(table: Table, folder: str) -> Iterator[StoredFile]:
    import pyarrow.fs as pa_fs

    below = pa_fs.FileSelector(folder, recursive=True, allow_not_found=True)
    for info in arrow_store(table).get_file_info(below):
        if info.is_file:
            yield StoredFile(info.path, info.size or 0, info.mtime.astimezone(UTC))


def _root(table: Table) -> str:
    return name_in_store(table.location().rstrip("/"))
