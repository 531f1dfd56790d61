"""Old snapshots go, and with them the files that only they refer to.

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
    QUERIES_END_WITHIN,
    expirable,
    outlived_tags,
)
from tableflow_assets.operate.maintenance.procedure import beside_writers, call
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.commit import drop_abandoned_branches
from tableflow_assets.table.delta.lifecycle import trim
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.formats import is_delta
from tableflow_assets.table.ledger import read_ledger

IDS_AT_ONCE = 2000
# Iceberg would also expire by its own default age: nothing is as old as this.
BY_ID_ONLY = "TIMESTAMP '1970-01-01T00:00:00Z'"


@dataclass(frozen=True)
class ExpiredOfTable:
    """Of one table: the snapshots that went (or would), and the files that went with them."""

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
    tables: tuple[ExpiredOfTable, ...]  # the topic's own, and that of its dead letters
    delta_versions: int = 0  # of the Delta log, trimmed to what can still be read

    @property
    def snapshots(self) -> int:
        return sum(one.snapshots for one in self.tables)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def expire(
    pipeline: Pipeline,
    *,
    older_than: timedelta | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> Expired:
    """``older_than``: else as the topic's `keep_snapshots` says."""
    age = pipeline.topic.keep_snapshots if older_than is None else older_than
    if not force:
        because = "a query that began before may still read its files"
        refuse_too_young("Snapshots", age, QUERIES_END_WITHIN, because)
    table = pipeline.existing_table()
    # A table that somebody else has changed keeps all that one could go back to.
    read_ledger(table)
    now = datetime.now(UTC)
    before = now - age
    if not dry_run:
        drop_abandoned_branches(pipeline.catalog, table)
        if is_delta(table):  # what its newest version shows must be among what stays
            catch_up(pipeline.catalog, table)
    tables = tuple(
        _expire(pipeline, one, before, dry_run) for one in (table, *_dead_letters(pipeline))
    )
    trimmed = 0
    if not dry_run:
        reached("expired")
        pipeline.catalog.ask(table.refresh)
        trimmed = trim(pipeline.catalog, table) if is_delta(table) else 0
    return Expired(pipeline.topic.name, dry_run, before, tables, trimmed)


def _dead_letters(pipeline: Pipeline) -> Iterator[Table]:
    if (found := pipeline.catalog.find(pipeline.topic.dead_letter_table)) is not None:
        yield found


def _expire(pipeline: Pipeline, table: Table, before: datetime, dry_run: bool) -> ExpiredOfTable:
    name = table.name()[-1]
    if dry_run:
        ids, tags = _to_expire(table, before)
        return ExpiredOfTable(name, len(ids), tuple(tags))
    # What the table's newest state was when the Delta log was brought up to it.
    seen = table.metadata.current_snapshot_id

    def some() -> ExpiredOfTable:
        pipeline.catalog.ask(table.refresh)
        ids, tags = _to_expire(table, before, also_kept=seen)
        if not ids and not tags:
            return ExpiredOfTable(name)
        reached("expiring")
        return _call(pipeline, name, ids[:IDS_AT_ONCE], tuple(tags))

    done = ExpiredOfTable(name)
    for _ in range(0, len(table.snapshots()), IDS_AT_ONCE):
        done = _and(done, beside_writers(some))
    return done


def _to_expire(
    table: Table, before: datetime, also_kept: int | None = None
) -> tuple[list[int], list[str]]:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    kept = () if also_kept is None else (also_kept,)
    old = expirable(table, int(before.timestamp() * 1000), now_ms, kept)
    return [one.snapshot_id for one in old], outlived_tags(table, now_ms)


def _call(pipeline: Pipeline, table: str, ids: list[int], tags: tuple[str, ...]) -> ExpiredOfTable:
    arguments = {"older_than": BY_ID_ONLY}
    if ids:
        arguments["snapshot_ids"] = f"array({', '.join(f'{one}L' for one in ids)})"
    try:
        gone = call(pipeline, "expire_snapshots", table, arguments)
    except MaintenanceFailed as error:
        if "Still referenced by refs" in error.problem:  # tagged since we looked
            raise CommitConflict(f"Somebody tagged a snapshot of {table}.", "Run again.") from error
        raise
    return ExpiredOfTable(
        table=table,
        snapshots=len(ids),
        tags=tags,
        data_files=gone["deleted_data_files_count"],
        delete_files=gone["deleted_position_delete_files_count"],
        metadata_files=gone["deleted_manifest_files_count"] + gone["deleted_manifest_lists_count"],
    )


def _and(done: ExpiredOfTable, more: ExpiredOfTable) -> ExpiredOfTable:
    return ExpiredOfTable(
        table=done.table,
        snapshots=done.snapshots + more.snapshots,
        tags=done.tags + more.tags,
        data_files=done.data_files + more.data_files,
        delete_files=done.delete_files + more.delete_files,
        metadata_files=done.metadata_files + more.metadata_files,
    )
