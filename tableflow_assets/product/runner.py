"""From what changed in a product's inputs to one commit of the rows that change in the product.

Idempotent: the commit that brings the rows also records, in the product's ledger, the input snapshots they
were computed from. A run that dies has committed all or nothing; the next one starts where the ledger says.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import date

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, InputMissing, LedgerError
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.product.affected import (
    Affected,
    find_affected,
    refuse_unknown_columns,
)
from tableflow_assets.product.difference import Difference, difference
from tableflow_assets.product.inputs import Inputs, Pinned, computed
from tableflow_assets.product.products import Product
from tableflow_assets.product.spark_refusals import understood
from tableflow_assets.product.table import (
    columns_of,
    columns_since,
    ensure_product_table,
    first_entry,
    next_entry,
)
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.table import commit as commits
from tableflow_assets.table.delta.lifecycle import keep_in_step
from tableflow_assets.table.evolve import evolve
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.ledger import Entry, Ledger, read_ledger
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.windows import rows_in
from tableflow_assets.table.written import Written

ATTEMPTS = 4
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunResult:
    """What a run did to the product. ``windows``: rows added or removed, by day of the event time."""

    rows_added: int = 0
    rows_removed: int = 0
    windows: dict[date, int] = field(default_factory=dict)
    snapshot: int | None = None  # None: there was nothing to do
    values_affected: int | None = None  # of the scope; None: all of them
    inputs: dict[str, int] = field(default_factory=dict)
    catalogs: tuple[CatalogStatus, ...] = ()  # how each shows the product after the run

    @property
    def did_nothing(self) -> bool:
        return self.snapshot is None

    def __str__(self) -> str:
        if self.did_nothing:
            return "nothing has changed in what it reads"
        values = "all of it" if self.values_affected is None else f"{self.values_affected} values"
        return f"{values} computed again: {self.rows_added} rows came, {self.rows_removed} went"

    def and_then(self, later: RunResult) -> RunResult:
        """What both did, one after the other; neither did nothing."""
        is_all = self.values_affected is None or later.values_affected is None
        days = sorted({*self.windows, *later.windows})
        return RunResult(
            rows_added=self.rows_added + later.rows_added,
            rows_removed=self.rows_removed + later.rows_removed,
            windows={day: self.windows.get(day, 0) + later.windows.get(day, 0) for day in days},
            snapshot=later.snapshot,
            values_affected=None
            if is_all
            else (self.values_affected or 0) + (later.values_affected or 0),
            inputs=later.inputs,
            catalogs=later.catalogs or self.catalogs,
        )


@dataclass(frozen=True)
class Runner(TableHandle):
    """One product on its way into its table."""

    product: Product
    publisher: Publisher

    def run(self, run_id: str = "", *, everything: bool = False) -> RunResult:
        """Bring the product up to date with its inputs, and publish it.

        ``everything``: compute all of it again.
        """
        result = self._commit_what_changed(run_id, everything)
        return replace(result, catalogs=tuple(self.publisher.publish(self.spec)))

    def _commit_what_changed(self, run_id: str, everything: bool) -> RunResult:
        def tell(_: CommitConflict) -> None:
            logger.info("%s: another run was faster; looking again", self.product.name)

        return retry_on_conflict(lambda: self._run(run_id, everything), ATTEMPTS, on_retry=tell)

    def inputs(self, snapshots: Mapping[str, int] | None = None) -> Inputs:
        """Pinned to their current snapshots for a whole run; or to ``snapshots``, by table."""
        pinned = {}
        for source in self.product.inputs:
            table = self.catalog.find(source.table)
            head = table.current_snapshot() if table is not None else None
            if table is None or head is None:
                raise InputMissing(
                    f"The product {self.product.name!r} reads {source.name!r}, which has no table yet.",
                    "The first record creates it; the product follows automatically.",
                )
            at = snapshots[source.table] if snapshots else head.snapshot_id
            if table.snapshot_by_id(at) is None:
                raise InputMissing(
                    f"The product {self.product.name!r} was computed from snapshot {at} of {source.name!r},"
                    " which has expired.",
                    f"Bring it up to date: tableflow products run {self.product.name}",
                )
            pinned[source.name] = Pinned(source, table, at, self.in_spark(source.table))
        return Inputs(pinned)

    def _run(self, run_id: str, everything: bool) -> RunResult:
        product, inputs = self.product, self.inputs()
        refuse_unknown_columns(product, inputs)
        table, ledger = self.table()
        worker = self.sized_for(inputs.rows + (rows_in(table) if table else 0))
        entry_before = ledger.entry if ledger else None
        is_same_sql = (
            entry_before is not None and entry_before.statement == product.definition.version
        )
        affected = Affected()
        with (
            named_spark_errors(self.in_spark(product.name)),
            understood(product.definition),
            ExitStack() as views,
        ):
            if entry_before and is_same_sql and not everything:
                if entry_before.inputs == inputs.snapshots:
                    return RunResult()
                affected = find_affected(worker.spark, product, inputs, entry_before.inputs, views)
                if affected.nothing_changed:
                    return RunResult()
            self.refuse_without_room()
            reached("planned")
            new = computed(worker.spark, product, inputs, affected.scope, views)
            table = self._evolved(table, columns_of(new, product, inputs))
            ledger = ledger or read_ledger(table)
            # A column that is new in the statement is NULL in rows that are otherwise unchanged.
            new_columns = columns_since(table, ledger.head)
            may_lack = () if everything else (*ledger.entry.added_columns, *new_columns)
            # Its snapshot is named, because Spark lets go of what it has kept only if it finds the same
            # table again. A snapshot lacks new columns; without it, whoever commits meanwhile makes this
            # commit be refused.
            old = self.in_spark(product.name)
            if not new_columns:
                old += f" VERSION AS OF {ledger.head}"
            changes = difference(worker.spark, product, new, old, affected.scope, may_lack, views)
            entry = next_entry(ledger.entry, product, inputs, may_lack, run_id)
            snapshot = self._commit(table, ledger, entry, changes)
        return RunResult(
            rows_added=changes.added,
            rows_removed=changes.removed,
            windows=changes.windows,
            snapshot=snapshot,
            values_affected=affected.count,
            inputs=entry.inputs,
        )

    def _evolved(self, table: Table | None, columns: Schema) -> Table:
        """The table, created if necessary, with all these columns."""
        if table is None or table.current_snapshot() is None:
            table = ensure_product_table(self.catalog, self.product, columns, self.state_dir)
        table = evolve(self.catalog, table, columns)
        keep_in_step(self.catalog, table, self.product.spec)
        return table

    def table(self) -> tuple[Table | None, Ledger | None]:
        table = self.catalog.find(self.product.name)
        head = table.current_snapshot() if table is not None else None
        if table is None or head is None:
            return table, None
        try:
            return table, read_ledger(table)
        except LedgerError as error:
            # Everything can be computed again, which undoes what somebody else did to the table.
            logger.warning("%s All of it is computed again.", error.problem)
            return table, Ledger(first_entry(self.product), head.timestamp_ms, head.snapshot_id)

    def _commit(self, table: Table, ledger: Ledger, entry: Entry, changes: Difference) -> int:
        name = self.in_spark(self.product.name)
        commits.drop_abandoned_branches(self.catalog, table)
        with commits.own_branch(self.catalog, table, ledger.head) as branch:
            if changes.removed:
                changes.delete_from(commits.branch_in_spark(name, branch))
            if changes.added:
                commits.append_to_branch(changes.rows_to_append, name, branch, entry, gather=True)
            else:
                commits.append_nothing(self.catalog, table, branch, entry)
            reached("files_written")
            written = Written(changes.added, snapshots=2 if changes.removed else 1)
            return self.commit_and_mirror(table, branch, ledger.head, written)
