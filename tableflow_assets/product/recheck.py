"""Whether a product's rows are what its statement makes of its inputs: computed again, and compared.

The inputs are looked at as the product's ledger names them. So what has come since is no finding.
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
    """Of all rows, or of those of so many values of the scope, chosen at random."""
    product, (table, ledger) = runner.product, runner.table()
    if table is None or ledger is None or ledger.entry.kind != "product":
        raise InputMissing(
            f"The product {product.name!r} has no rows yet.",
            f"Make them: tableflow products run {product.name}",
        )
    inputs, itself = runner.inputs(ledger.entry.inputs), runner.in_spark(product.name)
    with named_spark_errors(itself), ExitStack() as views:
        old = f"{itself} VERSION AS OF {ledger.head}"
        scope = _sample(runner.spark, product, inputs, old, sample) if sample else None
        new = computed(runner.spark, product, inputs, scope, views)
        may_lack = ledger.entry.added_columns
        try:
            found = difference(runner.spark, product, new, old, scope, may_lack, views)
        except ProductFailed as error:
            # A row twice in the table shows as two keys that are the same.
            return Recheck(product.name, 0, different=1, examples=({"problem": str(error)},))
        return Recheck(
            product=product.name,
            rows_compared=new.count(),
            missing=found.added - found.in_both,
            unexpected=found.removed - found.in_both,
            different=found.in_both,
            examples=tuple(found.examples(EXAMPLES)),
        )


def _sample(spark: SparkSession, product: Product, inputs: Inputs, itself: str, size: int) -> Scope:
    """From the product and from its inputs: a row may be missing as well as wrong."""
    columns = product.definition.scope
    own = ", ".join(map(quoted, columns))
    parts = [f"SELECT {own} FROM {itself}"]  # noqa: S608  (names are quoted)
    for pinned in inputs:
        affects = product.definition.header.changes[pinned.input.name]
        if not isinstance(affects, str):
            told = ", ".join(
                f"{flink.expression_in_spark(affects[one])} AS {quoted(one)}" for one in columns
            )
            parts.append(f"SELECT {told} FROM {pinned.relation}")  # noqa: S608
    values = spark.sql(
        f"SELECT * FROM ({' UNION '.join(parts)}) ORDER BY rand() LIMIT {size:d}"  # noqa: S608
    )
    at_hand = values.toArrow()
    return Scope(columns, spark.createDataFrame(at_hand, values.schema), at_hand)
