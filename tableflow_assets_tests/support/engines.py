"""One table, read by every engine and in both formats: six ways that share no code with each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.table.formats import delta_root
from tableflow_assets_tests.support.tables import table_of

Rows = list[tuple[Any, ...]]


def read_everywhere(pipeline: Pipeline, *columns: str) -> dict[str, Rows]:
    """By reader, the rows of these columns, in one order. Nested ones as `struct.field`."""
    table, catalog, spark = table_of(pipeline), pipeline.catalog, pipeline.spark
    root = delta_root(table)
    wanted = ", ".join(columns)
    duckdb = connect_duckdb(catalog.connection, catalog.storage)
    readers: dict[str, Callable[[], Rows]] = {
        "Iceberg by pyiceberg": lambda: _arrow(table.scan().to_arrow(), columns),
        "Iceberg by DuckDB": lambda: duckdb.execute(
            f'SELECT {wanted} FROM "{pipeline.topic.table}"'  # noqa: S608
        ).fetchall(),
        "Iceberg by Spark": lambda: _spark(spark, wanted, pipeline.spark_table),
        "Delta by delta-rs": lambda: _delta_rs(root, catalog, columns),
        "Delta by DuckDB": lambda: duckdb.execute(
            f"SELECT {wanted} FROM delta_scan('{root}')"  # noqa: S608
        ).fetchall(),
        "Delta by Spark": lambda: _spark(spark, wanted, f"delta.`{root}`"),
    }
    return {name: sorted(read(), key=repr) for name, read in readers.items()}


def _spark(spark: SparkSession, wanted: str, table: str) -> Rows:
    return [tuple(row) for row in spark.sql(f"SELECT {wanted} FROM {table}").collect()]  # noqa: S608


def _delta_rs(root: str, catalog: RestCatalog, columns: tuple[str, ...]) -> Rows:
    table = DeltaTable(root, storage_options=storage_options(catalog.storage))
    found = QueryBuilder().register("rows", table).execute("SELECT * FROM rows").read_all()
    return _arrow(pa.table(found), columns)


def _arrow(rows: pa.Table, columns: tuple[str, ...]) -> Rows:
    def value(row: dict[str, Any], column: str) -> Any:
        for name in column.split("."):
            row = row[name]
        return row

    return [tuple(value(row, column) for column in columns) for row in rows.to_pylist()]
