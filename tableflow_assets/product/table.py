"""A product's table: its columns from the statement, its windows by event time, its ledger of inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyiceberg.io.pyarrow import _ConvertToIcebergWithoutIDs, visit_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyspark.sql import DataFrame

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import ProductFailed
from tableflow_assets.product.inputs import Inputs
from tableflow_assets.product.products import Product
from tableflow_assets.table.create import MODE_PROPERTY, PRODUCT, create_table
from tableflow_assets.table.layout import DELETE_MODE, MARK_ROWS
from tableflow_assets.table.layout_fields import TIME_PROPERTY
from tableflow_assets.table.ledger import Entry


def columns_of(rows: DataFrame, product: Product) -> Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        known = visit_pyarrow(to_arrow_schema(rows.schema), _ConvertToIcebergWithoutIDs())
    except (TypeError, ValueError) as error:
        raise ProductFailed(
            f"The product {product.name!r} has a column of a type that no table can have: {error}",
            "Cast it to another type in its .sql file.",
        ) from error
    return assign_fresh_schema_ids(known)


def ensure_product_table(
    catalog: RestCatalog, product: Product, columns: Schema, state_dir: Path
) -> Table:
    first = Entry(
        topic=product.name, cluster_id="", topic_id="", origin={}, start={}, end={}, kind="origin"
    )
    properties = {
        MODE_PROPERTY: PRODUCT,
        # A row that changes is marked in its file and written anew: it costs what it is.
        DELETE_MODE: MARK_ROWS,
        TIME_PROPERTY: product.definition.header.event_time,
    }
    return create_table(catalog, product.topic, columns, first, state_dir, properties)


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
