"""The checks of a product's header: queries over the product and its inputs that should return no rows.

The inputs are read at the snapshots in the product's ledger: newer data in them is not a finding.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.product import flink
from tableflow_assets.product.definition import ITSELF
from tableflow_assets.product.inputs import Inputs
from tableflow_assets.product.runner import Runner
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.table.windows import rows_in

EXAMPLES = 20


@dataclass(frozen=True)
class Finding:
    """The result of a check: how many rows there are that should not be, and some of them.

    ``snapshot``: the product's, which was checked.
    """

    name: str
    snapshot: int
    offending: int
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        return not self.offending


def run_checks(runner: Runner, names: Collection[str] | None = None) -> list[Finding]:
    """All checks, or those in ``names``. None if the product has no rows yet."""
    product, (table, ledger) = runner.product, runner.table()
    if table is None or ledger is None or ledger.entry.kind != "product":
        return []
    queries = {
        name: flink.parse(query)
        for name, query in product.definition.header.checks.items()
        if names is None or name in names
    }
    itself = runner.in_spark(product.name)
    inputs = runner.inputs(ledger.entry.inputs)
    runner = runner.sized_for(inputs.rows + rows_in(table))
    names_used = {table for query in queries.values() for table in flink.tables_in(query)}
    with named_spark_errors(itself), ExitStack() as views:
        relation = f"{itself} VERSION AS OF {ledger.head}"
        sources = _sources(runner, inputs, relation, names_used, views)
        return [
            _result_of(name, ledger.head, runner.spark.sql(flink.in_spark(query, sources)))
            for name, query in queries.items()
        ]


def _sources(
    runner: Runner, inputs: Inputs, itself: str, names_used: Collection[str], views: ExitStack
) -> dict[str, flink.Source]:
    def view(relation: str) -> str:
        rows = runner.spark.sql(f"SELECT * FROM {relation}")  # noqa: S608  (names are quoted)
        return views.enter_context(named_view(runner.spark, rows))

    sources = {
        pinned.input.name: pinned.input.source(view(pinned.relation))
        for pinned in inputs
        if pinned.input.name in names_used
    }
    if ITSELF in names_used:
        sources[ITSELF] = flink.Source(view(itself), is_topic=False)
    return sources


def _result_of(name: str, snapshot: int, offending: DataFrame) -> Finding:
    """Usually there are few such rows or none, and no need to count them separately."""
    some = [row.asDict(recursive=True) for row in offending.limit(EXAMPLES + 1).collect()]
    count = len(some) if len(some) <= EXAMPLES else offending.count()
    return Finding(name, snapshot, count, tuple(offending.columns), tuple(some[:EXAMPLES]))
