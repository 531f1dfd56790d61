"""A product's inputs, each held at one snapshot for the time of a run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession

from tableflow_assets.product import flink
from tableflow_assets.product.products import Input, Product
from tableflow_assets.product.scope import Scope
from tableflow_assets.spark_session import named_view


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
    sources, header = {}, product.definition.header
    scope_view = views.enter_context(named_view(spark, scope.renamed)) if scope else ""
    for pinned in inputs:
        affects = header.changes[pinned.input.name]
        rows = f"SELECT * FROM {pinned.relation}"  # noqa: S608  (names are quoted)
        if scope is not None and not isinstance(affects, str):
            rows = scope.part_of(pinned.relation, affects, scope_view)
        view = views.enter_context(named_view(spark, spark.sql(rows)))
        sources[pinned.input.name] = pinned.input.source(view)
    return spark.sql(flink.in_spark(product.definition.statement, sources))
