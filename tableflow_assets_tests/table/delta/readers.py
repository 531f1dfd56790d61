"""A Delta log written by hand over an Iceberg table's files, and what readers make of it."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, NestedField

from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.stack import connections
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.table.delta.log import commit_name
from tableflow_assets.table.delta.schema import delta_schema, features
from tableflow_assets.table.delta.stats import StatsWriter
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root, shared_folder_property
from tableflow_assets.tableflow import Tableflow

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]  # a query over the table `delta_table`


def field(at: int, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
    """As all columns of our tables: it may be NULL."""
    return NestedField(at, name, kind, required=False, doc=doc)


def new_table(tableflow: Tableflow, schema: Schema) -> Table:
    tableflow.catalog.ensure_namespace()
    identifier = tableflow.catalog.identifier(f"delta_{uuid.uuid4().hex[:12]}")
    properties = {"format-version": "2"}
    table = tableflow.catalog.iceberg.create_table(identifier, schema, properties=properties)
    with table.transaction() as transaction:
        transaction.set_properties(shared_folder_property(table))
    return table


def append_by_spark(tableflow: Tableflow, table: Table, rows: list[Row], files: int) -> None:
    """By the writer that a topic's rows go through; neighbours by `id` in the same file."""
    arrow = pa.Table.from_pylist(rows, schema=plain(table.schema().as_arrow()))
    frame = tableflow.spark.createDataFrame(arrow).repartitionByRange(files, "id")
    name = f"{tableflow.settings.spark_catalog}.{'.'.join(table.name())}"
    frame.writeTo(name).option("distribution-mode", "none").append()
    table.refresh()


def plain(schema: pa.Schema) -> pa.Schema:
    """With the types that Spark takes: it knows neither large nor fixed ones."""

    def of(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_large_string(kind):
            return pa.string()
        if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            return pa.binary()
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            return pa.list_(of(kind.value_type))
        if pa.types.is_map(kind):
            return pa.map_(of(kind.key_type), of(kind.item_type))
        if pa.types.is_struct(kind):
            return pa.struct([(field.name, of(field.type)) for field in kind])
        return kind

    return pa.schema([(field.name, of(field.type)) for field in schema])


def log_of(table: Table) -> list[dict[str, Any]]:
    """A commit of a Delta log: all files that the Iceberg table has now."""
    schema, history = table.schema(), table.schemas()
    needed, stats = list(features(schema, history)), StatsWriter(schema)
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    metadata = {
        "id": str(table.metadata.table_uuid),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": delta_schema(schema, history),
        "partitionColumns": [],
        "configuration": {
            "delta.columnMapping.mode": "id",
            "delta.columnMapping.maxColumnId": str(table.metadata.last_column_id),
        },
    }
    files = [task.file for task in table.scan().plan_files()]
    adds = [
        {
            "path": quote(file.file_path.removeprefix(f"{delta_root(table)}/")),
            "partitionValues": {},
            "size": file.file_size_in_bytes,
            "modificationTime": 0,
            "dataChange": True,
            "stats": stats.of(file),
        }
        for file in files
    ]
    return [
        {"protocol": protocol | {"readerFeatures": needed, "writerFeatures": needed}},
        {"metaData": metadata},
        *({"add": add} for add in adds),
    ]


def write_log(
    tableflow: Tableflow, table: Table, actions: list[dict[str, Any]], copy: str | None = None
) -> str:
    """As the first commit of a Delta table, whose folder is returned.

    With ``copy``, that table is one of its own: where several commits say different things of a file,
    DuckDB may look at an older one.
    """
    storage = connections.s3_connection(tableflow.settings)
    source = store_at(delta_root(table), storage)
    root = delta_root(table) + (f"_{copy}" if copy else "")
    target = store_at(root, storage)
    for action in actions if copy else ():
        if add := action.get("add"):
            content = source.read(unquote(add["path"]))
            assert content is not None
            target.put(unquote(add["path"]), content)
    lines = [json.dumps(action) for action in actions]
    assert target.put_if_absent(commit_name(0), "\n".join(lines).encode())
    return root


def delta_readers(tableflow: Tableflow, root: str) -> Iterator[tuple[str, Ask]]:
    """delta-rs, DuckDB and Spark, by name."""
    settings = tableflow.settings
    storage, catalog = connections.s3_connection(settings), connections.catalog_connection(settings)

    def delta_rs(query: str) -> list[Row]:
        table = DeltaTable(root, storage_options=storage_options(storage))
        answer = QueryBuilder().register("delta_table", table).execute(query).read_all()
        return rows_of(pa.table(answer))

    @cache
    def connected() -> Any:
        connection = connect_duckdb(catalog, storage)
        scan = f"FROM delta_scan('{root}')"
        connection.execute(f"CREATE TEMP VIEW delta_table AS {scan}")
        return connection

    def duckdb(query: str) -> list[Row]:
        return rows_of(connected().sql(query).to_arrow_table())

    def spark(query: str) -> list[Row]:
        view = f"delta_{uuid.uuid4().hex}"
        tableflow.spark.read.format("delta").load(root).createOrReplaceTempView(view)
        return rows_of(tableflow.spark.sql(query.replace("delta_table", view)).toArrow())

    yield from (("delta-rs", delta_rs), ("DuckDB", duckdb), ("Spark", spark))


def rows_of(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.to_pylist()
    return rows


def comparable(rows: Iterable[Row]) -> list[Any]:
    """In the order of `id`; NaN is NaN, and a moment a moment."""

    def of(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: of(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [of(part) for part in value]
        if isinstance(value, float) and math.isnan(value):
            return "NaN"
        if isinstance(value, datetime) and value.tzinfo:
            return value.astimezone(UTC).isoformat()
        return value

    return [of(row) for row in sorted(rows, key=lambda row: row["id"])]
