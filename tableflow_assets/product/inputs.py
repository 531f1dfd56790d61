"""A product's inputs, each pinned to one snapshot for a whole run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product import flink
from tableflow_assets.product.narrow import narrowings
from tableflow_assets.product.products import Input, Product
from tableflow_assets.product.scope import Scope
from tableflow_assets.table.epochs import has_epochs
from tableflow_assets.table.windows import rows_in


@dataclass(frozen=True)
class Pinned:
    """``in_spark``: the name of the input's table in Spark."""

    input: Input
    table: Table
    snapshot: int
    in_spark: str

    @property
    def relation(self) -> str:
        return f"{self.in_spark} VERSION AS OF {self.snapshot}"

    def source(self, view: str) -> flink.Source:
        """``view``: of this input's rows, or of some of them."""
        snapshot = self.table.snapshot_by_id(self.snapshot)
        schema_id = snapshot.schema_id if snapshot else None
        schema = self.table.schema() if schema_id is None else self.table.schemas()[schema_id]
        return replace(self.input.source(view), has_epochs=has_epochs(schema))

    def appended_since(self, spark: SparkSession, snapshot: int) -> DataFrame:
        reader = spark.read.option("start-snapshot-id", snapshot)
        return reader.option("end-snapshot-id", self.snapshot).table(self.in_spark)


@dataclass(frozen=True)
class Inputs:
    """By the name that the product's SQL uses."""

    pinned: dict[str, Pinned]

    def __iter__(self) -> Iterator[Pinned]:
        return iter(self.pinned.values())

    @property
    def snapshots(self) -> dict[str, int]:
        """By table, as the ledger records them."""
        return {pinned.input.table: pinned.snapshot for pinned in self}

    @property
    def rows(self) -> int:
        return sum(rows_in(pinned.table) for pinned in self)


def computed(
    spark: SparkSession, product: Product, inputs: Inputs, scope: Scope | None, views: ExitStack
) -> DataFrame:
    """The product's rows, or those in the scope. ``views`` must stay open while they are used."""
    definition, view_names = product.definition, {}

    def make(name: str, rows: str) -> None:
        view_names[name] = views.enter_context(named_view(spark, spark.sql(rows)))

    if scope is not None:
        scope_view = views.enter_context(named_view(spark, scope.renamed))
        direct = {
            name: affects
            for name, affects in definition.header.changes.items()
            if not isinstance(affects, str)
        }
        for name, affects in direct.items():
            make(name, scope.part_of(inputs.pinned[name].relation, affects, scope_view))
        for narrowing in narrowings(definition.statement, direct, product.versions_by_input):
            rows = inputs.pinned[narrowing.name].relation
            joined = view_names[narrowing.by]
            make(narrowing.name, _only_joined(rows, narrowing.column, joined, narrowing.by_column))
    for name in inputs.pinned.keys() - view_names.keys():
        make(name, f"SELECT * FROM {inputs.pinned[name].relation}")  # noqa: S608  (names are quoted)
    sources = {name: inputs.pinned[name].source(view) for name, view in view_names.items()}
    return spark.sql(flink.in_spark(definition.statement, sources))


def _only_joined(relation: str, column: str, joined: str, joined_column: str) -> str:
    return (
        f"SELECT * FROM (SELECT * FROM {relation}) LEFT SEMI JOIN"  # noqa: S608  (names are quoted)
        f" (SELECT {quoted(joined_column)} AS __tableflow_joined FROM {joined})"
        f" ON {quoted(column)} = __tableflow_joined"
    )
