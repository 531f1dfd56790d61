"""Files in a table's folder that belong to nothing: left by work that was killed or refused half-way.

A file is removed only if it is old, and no snapshot, no metadata of the catalog and no Delta log refers
to it. The Delta log's own folders are left alone: the mirror cleans them up itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow.fs as pa_fs
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.file_io import arrow_store
from tableflow_assets.operate.maintenance.ages import refuse_too_young
from tableflow_assets.operate.maintenance.health import LAST_ORPHANS
from tableflow_assets.table.change import change_table
from tableflow_assets.table.delta.log import FOLDER as DELTA_LOG
from tableflow_assets.table.delta.log import DeltaLog
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.delta.vectors import FOLDER as VECTORS
from tableflow_assets.table.formats import delta_root, is_delta, topic_of
from tableflow_assets.table.handle import TableHandle

# Longer than any run takes from its first file to its commit.
SAFE_AGE = timedelta(days=1)
# In the metadata folder a catalog may keep files that the format does not know.
ICEBERGS_METADATA = re.compile(r".*\.(avro|metadata\.json|stats|puffin)")
READERS = 8
LOOKS = 3  # snapshots may expire while their files are being read


@dataclass(frozen=True)
class Orphan:
    file: str  # in the object store: bucket and path
    bytes: int
    modified: datetime


@dataclass(frozen=True)
class Orphans:
    """The files that were removed or, in a dry run, would be."""

    topic: str
    dry_run: bool
    before: datetime
    files: tuple[Orphan, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def remove_orphans(
    handle: TableHandle,
    *,
    older_than: timedelta = timedelta(days=3),
    dry_run: bool = False,
    force: bool = False,
) -> Orphans:
    if not force:
        because = "a run under way has not committed its files yet"
        refuse_too_young("Files that belong to nothing", older_than, SAFE_AGE, because)
    catalog, topic = handle.catalog, handle.spec
    table, letters = handle.existing_table(), catalog.find(topic.dead_letter_table)
    now = datetime.now(UTC)
    all_orphans: list[Orphan] = []
    for target in (table, *([letters] if letters else ())):
        orphans = _orphans_of(catalog, target, now - older_than)
        if not dry_run:
            _remove(catalog, target, orphans)
        all_orphans += orphans
    if not dry_run:
        properties = {LAST_ORPHANS: now.isoformat(timespec="seconds")}
        catalog.ask(table.refresh)
        change_table(
            catalog,
            table,
            lambda: table.transaction().set_properties(properties).commit_transaction(),
        )
    return Orphans(topic.name, dry_run, now - older_than, tuple(all_orphans))


def _orphans_of(catalog: RestCatalog, table: Table, before: datetime) -> list[Orphan]:
    # The listing comes first: a file committed after it is not listed, or it is known by then.
    files = {candidate.file: candidate for candidate in _stored_files(table)}
    known_files = _known_files(catalog, table)
    if known_files and files and not known_files & files.keys():
        raise MaintenanceFailed(
            f"None of the files of {'.'.join(table.name())} is found under {table.location()}.",
            "Nothing was removed. Is the table's data in another place than its location says?",
        )
    return [
        candidate
        for file, candidate in sorted(files.items())
        if file not in known_files and candidate.modified < before
    ]


def _stored_files(table: Table) -> Iterator[Orphan]:
    root = PyArrowFileIO.parse_location(table.location().rstrip("/"))[2]
    store = arrow_store(table)
    delta = _name(delta_root(table))
    not_ours = (f"{delta}/{DELTA_LOG}/", f"{delta}/{VECTORS}/")
    # A data folder elsewhere may hold the files of other tables too.
    data = {f"{root}/data", *([delta] if delta.startswith(f"{root}/") else ())}
    for folder in (*data, f"{root}/metadata"):
        below = pa_fs.FileSelector(folder, recursive=True, allow_not_found=True)
        for info in store.get_file_info(below):
            is_known_kind = folder in data or ICEBERGS_METADATA.fullmatch(info.path)
            if info.is_file and is_known_kind and not info.path.startswith(not_ours):
                yield Orphan(info.path, info.size or 0, info.mtime.astimezone(UTC))


def _known_files(catalog: RestCatalog, table: Table) -> set[str]:
    def look() -> set[str]:
        catalog.ask(table.refresh)
        return set(map(_name, _reachable(table))) | _in_delta_log(catalog, table)

    try:
        return retry_on_conflict(look, LOOKS, FileNotFoundError)
    except FileNotFoundError as error:
        raise MaintenanceFailed(
            f"A file of {'.'.join(table.name())} is missing: {error}.",
            "Nothing was removed. Without it nobody can say which files belong to the table.",
        ) from error


def _reachable(table: Table) -> Iterator[str]:
    metadata = table.metadata
    yield table.metadata_location
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (file.statistics_path for file in metadata.statistics)
    yield from (file.statistics_path for file in metadata.partition_statistics)
    snapshots = table.snapshots()
    yield from (snapshot.manifest_list for snapshot in snapshots)
    with ThreadPoolExecutor(READERS) as readers:
        lists = readers.map(lambda snapshot: snapshot.manifests(table.io), snapshots)
        manifests = {m.manifest_path: m for manifest_list in lists for m in manifest_list}
        yield from manifests
        entry_lists = readers.map(lambda m: m.fetch_manifest_entry(table.io), manifests.values())
        yield from (entry.data_file.file_path for entries in entry_lists for entry in entries)


def _in_delta_log(catalog: RestCatalog, table: Table) -> set[str]:
    if not is_delta(table):
        return set()
    root, store = delta_root(table), store_at(delta_root(table), catalog.storage)
    files = DeltaLog(store, topic_of(table)).state().files
    return {f"{_name(root)}/{unquote(path)}" for path in files}


def _remove(catalog: RestCatalog, table: Table, orphans: list[Orphan]) -> None:
    root = _name(table.location().rstrip("/")) + "/"
    store = store_at(table.location(), catalog.storage)
    store.delete([orphan.file.removeprefix(root) for orphan in orphans])


def _name(location: str) -> str:
    return PyArrowFileIO.parse_location(location)[2]
