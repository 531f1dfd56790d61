"""Merges the manifests that many small commits have left: a query opens all of them to plan."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.operate.maintenance.procedure import beside_writers, call
from tableflow_assets.table.delta.mirror import follow
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.ledger import read_ledger


@dataclass(frozen=True)
class RewrittenManifests:
    topic: str
    dry_run: bool
    before: int
    after: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def rewrite_manifests(handle: TableHandle, *, dry_run: bool = False) -> RewrittenManifests:
    """Of the table and its dead letters. In a dry run ``after`` equals ``before``."""
    table = handle.existing_table()
    read_ledger(table)  # raises if somebody else has changed the table
    letters = handle.catalog.find(handle.spec.dead_letter_table)
    tables = (table, *([letters] if letters else ()))

    def count() -> int:
        return sum(_manifests(handle, each) for each in tables)

    before = count()
    if dry_run:
        return RewrittenManifests(handle.spec.name, dry_run, before, before)
    for each in tables:
        _rewrite(handle, each.name()[-1])
    reached("compacted")
    follow(handle.catalog, table)
    return RewrittenManifests(handle.spec.name, dry_run, before, count())


def _manifests(handle: TableHandle, table: Table) -> int:
    head = handle.catalog.ask(table.refresh).current_snapshot()
    return len(head.manifests(table.io)) if head else 0


def _rewrite(handle: TableHandle, table: str) -> None:
    arguments = {"use_caching": "false"}
    reached("compacting")
    beside_writers(lambda: call(handle, "rewrite_manifests", table, arguments))
