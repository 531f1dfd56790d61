"""A product's inputs, each held at one snapshot for the time of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.product import flink
from tableflow_assets.product.narrow import narrowings
from tableflow_assets.product.products import Input, Product
from tableflow_assets.product.scope import Scope


@dataclass(frozen=True)
class Pinned:
    """``in_spark``: what Spark calls the input's table."""

    input: Input
    table: Table
    snapshot: int
    in_spark: str

    @property
    def relation(self) -> str:
        return f"{self.in_spark} VERSION AS OF {self.snapshot}"

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
        """By table: what the ledger keeps."""
        return {one.input.table: one.snapshot for one in self}


def computed(
    spark: SparkSession, product: Product, inputs: Inputs, scope: Scope | None, views: ExitStack
) -> DataFrame:
    """The product's rows; with a scope, those of it alone. ``views`` must stay open while they are used."""
    definition, made = product.definition, {}

    def make(name: str, rows: str) -> None:
        made[name] = views.enter_context(named_view(spark, spark.sql(rows)))

    if scope is not None:
        scope_view = views.enter_context(named_view(spark, scope.renamed))
        direct = {
            n: one for n, one in definition.header.changes.items() if not isinstance(one, str)
        }
        for name, affects in direct.items():
            make(name, scope.part_of(inputs.pinned[name].relation, affects, scope_view))
        for one in narrowings(definition.statement, direct, product.versions_by_input):
            rows = inputs.pinned[one.name].relation
            make(one.name, _only_joined(rows, one.column, made[one.by], one.by_column))
    for name in inputs.pinned.keys() - made.keys():
        make(name, f"SELECT * FROM {inputs.pinned[name].relation}")  # noqa: S608  (names are quoted)
    sources = {name: inputs.pinned[name].input.source(view) for name, view in made.items()}
    return spark.sql(flink.in_spark(definition.statement, sources))


def _only_joined(relation: str, column: str, other: str, other_column: str) -> str:
    return (
        f"SELECT * FROM (SELECT * FROM {relation}) LEFT SEMI JOIN"  # noqa: S608  (names are quoted)
        f" (SELECT {quoted(other_column)} AS __tableflow_joined FROM {other})"
        f" ON {quoted(column)} = __tableflow_joined"
    )
