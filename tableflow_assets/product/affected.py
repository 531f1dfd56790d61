"""What a product has to compute again, given the inputs it was last computed from."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.base.errors import ProductFailed
from tableflow_assets.base.spark_session import named_view, persisted
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product import flink
from tableflow_assets.product.changes import RowChanges, changes_between
from tableflow_assets.product.definition import CHANGED
from tableflow_assets.product.inputs import Inputs, Pinned
from tableflow_assets.product.products import Product
from tableflow_assets.product.scope import VALUES_AT_HAND, Scope, bounds_from, columns_used


@dataclass(frozen=True)
class Affected:
    """``scope``: None if any row of the product may be affected."""

    scope: Scope | None = None
    nothing_changed: bool = False  # in any of the inputs

    @property
    def count(self) -> int | None:
        return (
            self.scope.at_hand.num_rows if self.scope and self.scope.at_hand is not None else None
        )


def find_affected(
    spark: SparkSession,
    product: Product,
    inputs: Inputs,
    since: Mapping[str, int],
    views: ExitStack,
) -> Affected:
    """``since``: by table, the snapshot that the product was last computed from."""
    look = _Look(spark, product, inputs, views)
    parts = []
    for pinned in inputs:
        before = since.get(pinned.input.table)
        names = columns_used(product.definition.header.changes[pinned.input.name])
        if before is None:
            return Affected()
        changes = changes_between(pinned.table, before, pinned.snapshot, names)
        if changes is None:
            return Affected()
        if not changes.is_empty:
            parts.append(look.touched_by(pinned, look.changed_rows(pinned, before, changes, names)))
    if not parts:
        return Affected(nothing_changed=True)
    return Affected(look.scope(reduce(DataFrame.union, parts).distinct()))


def refuse_unknown_columns(product: Product, inputs: Inputs) -> None:
    """Otherwise only the second run would notice: the first one computes everything."""
    for pinned in inputs:
        columns = {name.lower() for name in pinned.table.schema().column_names}
        used = columns_used(product.definition.header.changes[pinned.input.name])
        if unknown := [name for name in used if name.lower() not in columns]:
            file = product.definition.file
            line = file.line_of_key("changes", pinned.input.name)
            raise ProductFailed(
                f"{file.path}:{line}: `changes` of the product {product.name!r} refers to"
                f" {unknown[0]!r}, which is not a column of {pinned.input.name!r}.",
                "Correct the header of its .sql file, then run it again.",
            )


@dataclass(frozen=True)
class _Look:
    spark: SparkSession
    product: Product
    inputs: Inputs
    views: ExitStack

    def changed_rows(
        self, pinned: Pinned, since: int, changes: RowChanges, columns: tuple[str, ...]
    ) -> DataFrame:
        parts = []
        if changes.has_added:
            parts.append(pinned.appended_since(self.spark, since).select(*map(quoted, columns)))
        if changes.removed is not None:
            parts.append(self.spark.createDataFrame(changes.removed).select(*map(quoted, columns)))
        return reduce(DataFrame.union, parts).distinct()

    def touched_by(self, pinned: Pinned, changed: DataFrame) -> DataFrame:
        affects = self.product.definition.header.changes[pinned.input.name]
        scope = self.product.definition.scope
        if not isinstance(affects, str):
            expressions = [
                f"{flink.expression_in_spark(affects[name])} AS {quoted(name)}" for name in scope
            ]
            return changed.selectExpr(*expressions)
        query = flink.parse(affects)
        at_hand, changed = self._at_hand(changed)
        bounds = bounds_from(query, at_hand) if at_hand is not None else {}
        sources = {CHANGED: flink.Source(self._view(changed), is_topic=False)}
        for name in flink.tables_in(query):
            if name != CHANGED:
                pinned_input = self.inputs.pinned[name]
                rows = f"SELECT * FROM {pinned_input.relation} WHERE {bounds.get(name, 'true')}"  # noqa: S608
                sources[name] = pinned_input.source(self._view(self.spark.sql(rows)))
        return self.spark.sql(flink.in_spark(query, sources)).toDF(*scope)

    def scope(self, values: DataFrame) -> Scope:
        at_hand, rows = self._at_hand(values)
        return Scope(self.product.definition.scope, rows, at_hand)

    def _at_hand(self, rows: DataFrame) -> tuple[pa.Table | None, DataFrame]:
        """The rows in the driver's memory if they are few (else None), and as a DataFrame computed once."""
        values = rows.limit(VALUES_AT_HAND + 1).toArrow()
        if values.num_rows > VALUES_AT_HAND:
            return None, self.views.enter_context(persisted(rows))
        return values, self.spark.createDataFrame(values, rows.schema)

    def _view(self, rows: DataFrame) -> str:
        return self.views.enter_context(named_view(self.spark, rows))
