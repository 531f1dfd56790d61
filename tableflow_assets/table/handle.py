"""A managed table and what work on it takes: its catalog, and Spark where rows are touched. Never the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from pyiceberg.table import Table
from pyspark.sql import SparkSession

from tableflow_assets.base.disk_space import DiskSpace
from tableflow_assets.base.spark_session import FEW_ROWS, session_for_few_rows
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table import commit as commits
from tableflow_assets.table import known_tables
from tableflow_assets.table.delta.mirror import follow
from tableflow_assets.table.written import Written


@dataclass(frozen=True)
class TableHandle:
    """Holds connections, no state: the table has that."""

    spec: ManagedTable
    catalog: RestCatalog
    spark_catalog: str
    state_dir: Path
    connect_spark: Callable[[], SparkSession]
    disk: DiskSpace | None = field(default=None, kw_only=True)  # None: not on this machine

    @cached_property
    def spark(self) -> SparkSession:
        return self.connect_spark()

    def sized_for(self, rows: int) -> Self:
        """The same, with a Spark session that suits work on so many rows."""
        if rows > FEW_ROWS:
            return self
        return replace(self, connect_spark=lambda: session_for_few_rows(self.spark))

    @property
    def spark_table(self) -> str:
        return self.in_spark(self.spec.table)

    @property
    def dead_letter_table(self) -> str:
        return self.in_spark(self.spec.dead_letter_table)

    def in_spark(self, table: str) -> str:
        """The table's name in Spark SQL."""
        return f"`{self.spark_catalog}`.`{self.catalog.namespace}`.`{table}`"

    def refuse_without_room(self) -> None:
        """Before anything is begun that makes the table grow."""
        if self.disk is not None:
            self.disk.refuse_when_short()

    def existing_table(self, to: str = "") -> Table:
        """For work on a table that must be there; ``to`` names that work in a word or two."""
        return known_tables.existing_table(self.catalog, self.state_dir, self.spec, to)

    def mirror(self, table: Table) -> None:
        """Let the Delta log follow the commit that has just left the table as it is here."""
        follow(self.catalog, table, is_fresh=True)

    def commit_and_mirror(
        self,
        table: Table,
        branch: str,
        base: int,
        written: Written | None = None,
        *,
        keep_old_as: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make the branch's head the table's current snapshot, and let the Delta log follow."""
        head = commits.commit_branch(
            self.catalog,
            table,
            branch,
            base,
            written,
            keep_old_as=keep_old_as,
            properties=properties,
        )
        self.mirror(table)
        return head
