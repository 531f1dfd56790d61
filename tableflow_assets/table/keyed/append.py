"""One commit to a table with keys: the rows of changed keys go, their new rows come."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import DataFrame

from tableflow_assets.table import commit as commits
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.keyed.changes import (
    Branch,
    KeysPerWindow,
    last_change_of_every_key,
    rows_of_changes,
)
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.written import Written


@dataclass(frozen=True)
class AppliedChanges:
    """A batch on its branch."""

    keys_changed: KeysPerWindow
    written: Written


def append_changes(
    handle: TableHandle,
    changes: DataFrame,
    keys_at_most: int,
    table: Table,
    branch: str,
    entry: Entry,
) -> AppliedChanges:
    """``changes``: decoded records, in any order, on top of the rows that the branch has."""
    with last_change_of_every_key(
        handle.spark, changes, keys_at_most, handle.spec.window
    ) as last_changes:
        in_spark = commits.branch_in_spark(handle.spark_table, branch)
        target = Branch(handle.catalog, table, branch, in_spark, entry.epoch)
        left = rows_of_changes(handle.spark, last_changes, target)
        commits.append_to_branch(
            left.rows,
            handle.spark_table,
            branch,
            entry,
            gather=True,
            fanout=handle.spec.has_few_partitions,
        )
        written = Written(left.count, snapshots=2 if left.has_deleted else 1)
        return AppliedChanges(last_changes.per_window, written)
