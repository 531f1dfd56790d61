"""Files in a table's folder that belong to nothing: left by work that was killed or refused half-way.

A file is removed only if it is old, and no snapshot, no metadata of the catalog and no Delta log refers
to it. The Delta log's own folders are left alone: the mirror cleans them up itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from pyiceberg.table import Table

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.maintenance.ages import refuse_too_young
from tableflow_assets.operate.maintenance.health import LAST_ORPHANS
from tableflow_assets.operate.maintenance.old_metadata import needed_metadata
from tableflow_assets.operate.maintenance.stored_files import (
    StoredFile,
    name_in_store,
    remove,
    stored_files,
)
from tableflow_assets.table.change import change_table
from tableflow_assets.table.delta.log import DeltaLog
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root, is_delta, topic_of
from tableflow_assets.table.handle import TableHandle

# Longer than any run takes from its first file to its commit.
SAFE_AGE = timedelta(days=1)
READERS = 8
LOOKS = 3  # snapshots may expire while their files are being read


@dataclass(frozen=True)
class Orphans:
    """The files that were removed or, in a dry run, would be."""

    topic: str
    dry_run: bool
    before: datetime
    files: tuple[StoredFile, ...]

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
    all_orphans: list[StoredFile] = []
    for target in (table, *([letters] if letters else ())):
        orphans = _orphans_of(handle, target, now - older_than)
        if not dry_run:
            remove(catalog, target, orphans)
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


def _orphans_of(handle: TableHandle, table: Table, before: datetime) -> list[StoredFile]:
    # The listing comes first: a file committed after it is not listed, or it is known by then.
    files = {candidate.file: candidate for candidate in stored_files(table)}
    known_files = _known_files(handle, table)
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


def _known_files(handle: TableHandle, table: Table) -> set[str]:
    def look() -> set[str]:
        handle.catalog.ask(table.refresh)
        known = (*needed_metadata(handle, table), *_reachable(table))
        return set(map(name_in_store, known)) | _in_delta_log(handle.catalog, table)

    try:
        return retry_on_conflict(look, LOOKS, FileNotFoundError)
    except FileNotFoundError as error:
        raise MaintenanceFailed(
            f"A file of {'.'.join(table.name())} is missing: {error}.",
            "Nothing was removed. Without it nobody can say which files belong to the table.",
        ) from error


def _reachable(table: Table) -> Iterator[str]:
    metadata = table.metadata
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
    return {f"{name_in_store(root)}/{unquote(path)}" for path in files}
