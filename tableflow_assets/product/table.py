"""A product's table: its columns from the statement, its windows by event time, its ledger of inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from sqlglot import exp

from tableflow_assets.base.errors import ProductFailed
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.inputs import Inputs
from tableflow_assets.product.lineage import column_lineage
from tableflow_assets.product.products import Product
from tableflow_assets.table.create import MODE_PROPERTY, PRODUCT, create_table
from tableflow_assets.table.layout import DELETE_MODE, MARK_ROWS
from tableflow_assets.table.layout_fields import TIME_PROPERTY
from tableflow_assets.table.ledger import Entry


def columns_of(rows: DataFrame, product: Product, inputs: Inputs) -> Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        schema = visit_pyarrow(to_arrow_schema(rows.schema), _ConvertToIcebergWithoutIDs())
    except (TypeError, ValueError) as error:
        raise ProductFailed(
            f"The product {product.name!r} has a column of a type that no table can have: {error}",
            "Cast it to another type in its .sql file.",
        ) from error
    if not isinstance(schema, Schema):
        raise AssertionError("rows have columns")
    comments = _comments(product, inputs)
    # Optional, whatever Spark says: rows written before a column was added do not have it.
    described = (
        field.model_copy(update={"doc": comments.get(field.name), "required": False})
        for field in schema.fields
    )
    return assign_fresh_schema_ids(Schema(*described))


def _comments(product: Product, inputs: Inputs) -> dict[str, str]:
    """The comments of columns that come unchanged from an input."""
    schemas = {pinned.input.name: pinned.table.schema() for pinned in inputs}
    columns = {name: schema.column_names for name, schema in schemas.items()}
    origins = column_lineage(product, columns)
    comments = {}
    for projection in product.definition.statement.selects:
        name = str(projection.alias_or_name)
        if isinstance(projection.unalias(), exp.Column) and len(origins[name]) == 1:
            ((source, column),) = origins[name]
            docs = {field.name: field.doc for field in schemas[source].fields}
            if comment := docs.get(column):
                comments[name] = comment
    return comments


def columns_since(table: Table, snapshot: int) -> tuple[str, ...]:
    """The columns that rows of the snapshot lack. A run that died may have added them already."""
    head = table.snapshot_by_id(snapshot)
    schema = table.schemas().get(head.schema_id or 0) if head else None
    before = {field.name for field in (schema or table.schema()).fields}
    return tuple(field.name for field in table.schema().fields if field.name not in before)


def ensure_product_table(
    catalog: RestCatalog, product: Product, columns: Schema, state_dir: Path
) -> Table:
    properties = {
        MODE_PROPERTY: PRODUCT,
        # A changed row is marked in its file and written again, so that small changes stay cheap.
        DELETE_MODE: MARK_ROWS,
        TIME_PROPERTY: product.definition.header.event_time,
    }
    return create_table(catalog, product.spec, columns, first_entry(product), state_dir, properties)


def first_entry(product: Product) -> Entry:
    """For a table that has no rows yet."""
    return Entry(
        topic=product.name, cluster_id="", topic_id="", origin={}, start={}, end={}, kind="origin"
    )


def next_entry(
    before: Entry, product: Product, inputs: Inputs, added_columns: tuple[str, ...], run_id: str
) -> Entry:
    return replace(
        before,
        kind="product",
        inputs=inputs.snapshots,
        statement=product.definition.version,
        added_columns=added_columns,
        run_id=run_id,
    )
