"""One commit to a table with keys: the rows of changed keys go, their new rows come."""

from __future__ import annotations

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


def append_changes(
    handle: TableHandle,
    changes: DataFrame,
    keys_at_most: int,
    table: Table,
    branch: str,
    entry: Entry,
) -> KeysPerWindow:
    """``changes``: decoded records, in any order, on top of the rows that the branch has."""
    with last_change_of_every_key(
        handle.spark, changes, keys_at_most, handle.spec.window
    ) as last_changes:
        in_spark = commits.branch_in_spark(handle.spark_table, branch)
        target = Branch(handle.catalog, table, branch, in_spark)
        rows = rows_of_changes(handle.spark, last_changes, target)
        commits.append_to_branch(
            rows,
            handle.spark_table,
            branch,
            entry,
            gather=True,
            fanout=handle.spec.has_few_partitions,
        )
        return last_changes.per_window
