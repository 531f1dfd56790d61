"""Expires old snapshots, and with them the files that only they refer to.

What the ledger, a tag, a branch, or the Delta log needs stays, however old.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, MaintenanceFailed
from tableflow_assets.operate.maintenance.ages import refuse_too_young
from tableflow_assets.operate.maintenance.expirable import (
    MILLISECOND,
    QUERIES_END_WITHIN,
    Limits,
    SortedOut,
    outlived_tags,
    sort_out,
)
from tableflow_assets.operate.maintenance.procedure import beside_writers, call
from tableflow_assets.table.change import change_table
from tableflow_assets.table.commit import drop_abandoned_branches
from tableflow_assets.table.delta.lifecycle import trim
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.formats import is_delta
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.snapshots import KEPT

IDS_AT_ONCE = 2000
# Iceberg would otherwise also expire by its own default age: nothing is as old as this.
BY_ID_ONLY = "TIMESTAMP '1970-01-01T00:00:00Z'"


@dataclass(frozen=True)
class ExpiredInTable:
    """The snapshots of one table that expired (or would), and the files that went with them."""

    table: str
    snapshots: int = 0
    tags: tuple[str, ...] = ()
    data_files: int = 0
    delete_files: int = 0
    metadata_files: int = 0


@dataclass(frozen=True)
class Expired:
    topic: str
    dry_run: bool
    before: datetime
    tables: tuple[ExpiredInTable, ...]  # the topic's own, and that of its dead letters
    delta_versions: int = 0  # of the Delta log, trimmed to what can still be read

    @property
    def snapshots(self) -> int:
        return sum(table.snapshots for table in self.tables)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def expire(
    handle: TableHandle,
    *,
    older_than: timedelta | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> Expired:
    """``older_than``: by default the topic's `keep_snapshots`."""
    age = handle.spec.keep_snapshots if older_than is None else older_than
    if not force:
        because = "a query that began before may still read its files"
        refuse_too_young("Snapshots", age, QUERIES_END_WITHIN, because)
    table = handle.existing_table()
    # Raises if somebody else has changed the table, which then keeps all it could go back to.
    read_ledger(table)
    now = datetime.now(UTC)
    before = now - age
    if not dry_run:
        drop_abandoned_branches(handle.catalog, table)
        if is_delta(table):  # the state that its newest version shows must stay
            catch_up(handle.catalog, table)
    tables = tuple(
        _expire(handle, target, before, dry_run) for target in (table, *_dead_letters(handle))
    )
    trimmed = 0
    if not dry_run:
        reached("expired")
        handle.catalog.ask(table.refresh)
        trimmed = trim(handle.catalog, table) if is_delta(table) else 0
    return Expired(handle.spec.name, dry_run, before, tables, trimmed)


def _dead_letters(handle: TableHandle) -> Iterator[Table]:
    if (table := handle.catalog.find(handle.spec.dead_letter_table)) is not None:
        yield table


def _expire(handle: TableHandle, table: Table, before: datetime, dry_run: bool) -> ExpiredInTable:
    name = table.name()[-1]
    if dry_run:
        sorted_out, tags = _sort_out(handle, table, before)
        return ExpiredInTable(name, len(sorted_out.expirable), tuple(tags))
    _tag_kept(handle, table, before)
    # The table's newest state when the Delta log caught up with it.
    mirrored_head = table.metadata.current_snapshot_id

    def expire_batch() -> ExpiredInTable:
        handle.catalog.ask(table.refresh)
        sorted_out, tags = _sort_out(handle, table, before, also_needed=mirrored_head)
        ids = [snapshot.snapshot_id for snapshot in sorted_out.expirable]
        if not ids and not tags:
            return ExpiredInTable(name)
        reached("expiring")
        return _call(handle, name, ids[:IDS_AT_ONCE], tuple(tags))

    total = ExpiredInTable(name)
    for _ in range(0, len(table.snapshots()), IDS_AT_ONCE):
        total = _plus(total, beside_writers(expire_batch))
    return total


def _sort_out(
    handle: TableHandle, table: Table, before: datetime, also_needed: int | None = None
) -> tuple[SortedOut, list[str]]:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    needed = () if also_needed is None else (also_needed,)
    limits = Limits.of(handle.spec, int(before.timestamp() * 1000))
    return sort_out(table, limits, now_ms, needed), outlived_tags(table, now_ms)


def _tag_kept(handle: TableHandle, table: Table, before: datetime) -> None:
    """By a tag, every engine can name the state, and no expiry removes it before its time."""
    lifetime = handle.spec.keep_snapshots // MILLISECOND

    def tag() -> None:
        kept = _sort_out(handle, table, before)[0].kept
        if kept:
            changes = table.manage_snapshots()
            for snapshot in kept:
                name = f"{KEPT}_{snapshot.timestamp_ms}"
                changes = changes.create_tag(snapshot.snapshot_id, name, lifetime)
            changes.commit()

    change_table(handle.catalog, table, tag)


def _call(handle: TableHandle, table: str, ids: list[int], tags: tuple[str, ...]) -> ExpiredInTable:
    arguments = {"older_than": BY_ID_ONLY}
    if ids:
        arguments["snapshot_ids"] = f"array({', '.join(f'{snapshot_id}L' for snapshot_id in ids)})"
    try:
        deleted = call(handle, "expire_snapshots", table, arguments)
    except MaintenanceFailed as error:
        if "Still referenced by refs" in error.problem:  # tagged since we looked
            raise CommitConflict(f"Somebody tagged a snapshot of {table}.", "Run again.") from error
        raise
    return ExpiredInTable(
        table=table,
        snapshots=len(ids),
        tags=tags,
        data_files=deleted["deleted_data_files_count"],
        delete_files=deleted["deleted_position_delete_files_count"],
        metadata_files=deleted["deleted_manifest_files_count"]
        + deleted["deleted_manifest_lists_count"],
    )


def _plus(total: ExpiredInTable, batch: ExpiredInTable) -> ExpiredInTable:
    return ExpiredInTable(
        table=total.table,
        snapshots=total.snapshots + batch.snapshots,
        tags=total.tags + batch.tags,
        data_files=total.data_files + batch.data_files,
        delete_files=total.delete_files + batch.delete_files,
        metadata_files=total.metadata_files + batch.metadata_files,
    )
