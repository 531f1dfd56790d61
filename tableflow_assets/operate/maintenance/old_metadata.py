"""Removes old versions of a table's metadata: every commit writes three, each with all snapshots in it.

With a REST catalog that is the server's task, if it is asked for it and if it does it: SeaweedFS does, many
do not. It goes by number: with a commit every few seconds, a version is gone within minutes. So where
another catalog shows the table by such a file, and may fall behind, only this removes them, by age.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table

from tableflow_assets.operate.maintenance.ages import refuse_too_young
from tableflow_assets.operate.maintenance.expirable import QUERIES_END_WITHIN
from tableflow_assets.operate.maintenance.stored_files import (
    StoredFile,
    name_in_store,
    remove,
    stored_metadata,
)
from tableflow_assets.publish.marks import last_told
from tableflow_assets.table.change import change_table
from tableflow_assets.table.metadata_log import (
    REMOVED_BY_THE_SERVER,
    SHORT_METADATA_LOG,
    VERSIONS_IN_LOG,
)

if TYPE_CHECKING:  # it brings Spark, and `health` only looks
    from tableflow_assets.table.handle import TableHandle

LAST_REMOVAL = "tableflow.metadata_removed"  # a property of the table: when, in ISO
# A schedule of every hour must not miss every other hour by a second.
REMOVED_EVERY = QUERIES_END_WITHIN / 2
SUFFIX = ".metadata.json"


@dataclass(frozen=True)
class OldMetadata:
    """The versions that were removed or, in a dry run, would be."""

    topic: str
    dry_run: bool
    before: datetime
    files: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def has_old_metadata(table: Table, now: datetime) -> bool:
    """By the table's own log of versions, without a look at the object store."""
    log = table.metadata.metadata_log
    try:
        last = datetime.fromisoformat(table.properties[LAST_REMOVAL])
    except (KeyError, ValueError):
        return len(log) >= VERSIONS_IN_LOG
    if not log or now - last < REMOVED_EVERY:
        return False
    # The version of that time is no longer in the log, so that it can go, and those after it.
    return min(entry.timestamp_ms for entry in log) > last.timestamp() * 1000


def remove_old_metadata(
    handle: TableHandle,
    *,
    older_than: timedelta = QUERIES_END_WITHIN,
    dry_run: bool = False,
    force: bool = False,
) -> OldMetadata:
    """Of the table and its dead letters. What the catalog's log of versions names stays, however old."""
    if not force:
        because = "a reader may have been told of it just before"
        refuse_too_young("Versions of the metadata", older_than, QUERIES_END_WITHIN, because)
    now = datetime.now(UTC)
    files: list[StoredFile] = []
    for table in _tables(handle):
        old = _old_versions(handle, table, now - older_than)
        if not dry_run:
            remove(handle.catalog, table, old)
            _note(handle, table, now)
        files += old
    size = sum(file.bytes for file in files)
    return OldMetadata(handle.spec.name, dry_run, now - older_than, len(files), size)


def _tables(handle: TableHandle) -> Iterator[Table]:
    yield handle.existing_table()
    if (letters := handle.catalog.find(handle.spec.dead_letter_table)) is not None:
        yield letters


def _old_versions(handle: TableHandle, table: Table, before: datetime) -> list[StoredFile]:
    # The listing comes first: a version that is written after it is not in it.
    stored = [file for file in stored_metadata(table) if file.file.endswith(SUFFIX)]
    handle.catalog.ask(table.refresh)
    needed = set(map(name_in_store, needed_metadata(handle, table)))
    return [file for file in stored if file.modified < before and file.file not in needed]


def needed_metadata(handle: TableHandle, table: Table) -> Iterator[str]:
    """The current version, those that the catalog still names, and those that other catalogs show."""
    yield table.metadata_location
    yield from (entry.metadata_file for entry in table.metadata.metadata_log)
    yield from last_told(handle.state_dir, table.name()[-1])


def _note(handle: TableHandle, table: Table, now: datetime) -> None:
    """Dead letters' tables, and those of earlier versions, get a short log with it."""
    is_shown_elsewhere = bool(last_told(handle.state_dir, table.name()[-1]))
    properties = {
        **SHORT_METADATA_LOG,
        REMOVED_BY_THE_SERVER: str(not is_shown_elsewhere).lower(),
        LAST_REMOVAL: now.isoformat(timespec="seconds"),
    }
    change_table(
        handle.catalog,
        table,
        lambda: table.transaction().set_properties(properties).commit_transaction(),
    )
