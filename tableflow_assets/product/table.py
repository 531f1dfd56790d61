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
        known = visit_pyarrow(to_arrow_schema(rows.schema), _ConvertToIcebergWithoutIDs())
    except (TypeError, ValueError) as error:
        raise ProductFailed(
            f"The product {product.name!r} has a column of a type that no table can have: {error}",
            "Cast it to another type in its .sql file.",
        ) from error
    if not isinstance(known, Schema):
        raise AssertionError("rows have columns")
    comments = _comments(product, inputs)
    # Optional, whatever Spark can tell of them: rows from before a column was added do not have it.
    described = (
        one.model_copy(update={"doc": comments.get(one.name), "required": False})
        for one in known.fields
    )
    return assign_fresh_schema_ids(Schema(*described))


def _comments(product: Product, inputs: Inputs) -> dict[str, str]:
    """Of columns that are an input's own, what they are there."""
    schemas = {one.input.name: one.table.schema() for one in inputs}
    columns = {name: schema.column_names for name, schema in schemas.items()}
    origins = column_lineage(product, columns)
    found = {}
    for projection in product.definition.statement.selects:
        name = str(projection.alias_or_name)
        if isinstance(projection.unalias(), exp.Column) and len(origins[name]) == 1:
            ((source, column),) = origins[name]
            own = {one.name: one.doc for one in schemas[source].fields}
            if comment := own.get(column):
                found[name] = comment
    return found


def columns_since(table: Table, snapshot: int) -> tuple[str, ...]:
    """Those that rows of the snapshot do not have. A run that died may have added them already."""
    known = table.snapshot_by_id(snapshot)
    schema = table.schemas().get(known.schema_id or 0) if known else None
    before = {one.name for one in (schema or table.schema()).fields}
    return tuple(one.name for one in table.schema().fields if one.name not in before)


def ensure_product_table(
    catalog: RestCatalog, product: Product, columns: Schema, state_dir: Path
) -> Table:
    properties = {
        MODE_PROPERTY: PRODUCT,
        # A row that changes is marked in its file and written anew: it costs what it is.
        DELETE_MODE: MARK_ROWS,
        TIME_PROPERTY: product.definition.header.event_time,
    }
    return create_table(catalog, product.spec, columns, first_entry(product), state_dir, properties)


def first_entry(product: Product) -> Entry:
    """Of a table that is made of nothing yet."""
    return Entry(
        topic=product.name, cluster_id="", topic_id="", origin={}, start={}, end={}, kind="origin"
    )


def next_entry(
    before: Entry, product: Product, inputs: Inputs, added: tuple[str, ...], run_id: str
) -> Entry:
    return replace(
        before,
        kind="product",
        inputs=inputs.snapshots,
        statement=product.definition.version,
        added_columns=added,
        run_id=run_id,
    )
