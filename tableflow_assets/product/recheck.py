"""Whether a product's rows are what its statement makes of its inputs: computed again and compared.

The inputs are read at the snapshots in the product's ledger: newer data in them is not a finding.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession

from tableflow_assets.base.errors import InputMissing, ProductFailed
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product import flink
from tableflow_assets.product.difference import difference
from tableflow_assets.product.inputs import Inputs, computed
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Runner
from tableflow_assets.product.scope import Scope
from tableflow_assets.table.spark_errors import named_spark_errors

EXAMPLES = 5


@dataclass(frozen=True)
class Recheck:
    """``missing``, ``unexpected`` and ``different``: rows of the product's table, by key."""

    product: str
    rows_compared: int
    missing: int = 0
    unexpected: int = 0
    different: int = 0
    examples: tuple[dict[str, Any], ...] = ()

    @property
    def passed(self) -> bool:
        return not (self.missing or self.unexpected or self.different)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


def recheck(runner: Runner, sample: int | None = None) -> Recheck:
    """Of all rows, or of those of ``sample`` values of the scope, chosen at random."""
    product, (table, ledger) = runner.product, runner.table()
    if table is None or ledger is None or ledger.entry.kind != "product":
        raise InputMissing(
            f"The product {product.name!r} has no rows yet.",
            f"Compute them: tableflow products run {product.name}",
        )
    inputs, itself = runner.inputs(ledger.entry.inputs), runner.in_spark(product.name)
    with named_spark_errors(itself), ExitStack() as views:
        old = f"{itself} VERSION AS OF {ledger.head}"
        scope = _sample(runner.spark, product, inputs, old, sample) if sample else None
        new = computed(runner.spark, product, inputs, scope, views)
        may_lack = ledger.entry.added_columns
        try:
            changes = difference(runner.spark, product, new, old, scope, may_lack, views)
        except ProductFailed as error:
            # A duplicate row in the table shows up as an ambiguous key.
            return Recheck(product.name, 0, different=1, examples=({"problem": str(error)},))
        return Recheck(
            product=product.name,
            rows_compared=new.count(),
            missing=changes.added - changes.in_both,
            unexpected=changes.removed - changes.in_both,
            different=changes.in_both,
            examples=tuple(changes.examples(EXAMPLES)),
        )


def _sample(spark: SparkSession, product: Product, inputs: Inputs, itself: str, size: int) -> Scope:
    """Values from the product and from its inputs: a row may be missing as well as wrong."""
    columns = product.definition.scope
    names = ", ".join(map(quoted, columns))
    parts = [f"SELECT {names} FROM {itself}"]  # noqa: S608  (names are quoted)
    for pinned in inputs:
        affects = product.definition.header.changes[pinned.input.name]
        if not isinstance(affects, str):
            expressions = ", ".join(
                f"{flink.expression_in_spark(affects[column])} AS {quoted(column)}"
                for column in columns
            )
            parts.append(f"SELECT {expressions} FROM {pinned.relation}")  # noqa: S608
    values = spark.sql(
        f"SELECT * FROM ({' UNION '.join(parts)}) ORDER BY rand() LIMIT {size:d}"  # noqa: S608
    )
    at_hand = values.toArrow()
    return Scope(columns, spark.createDataFrame(at_hand, values.schema), at_hand)
