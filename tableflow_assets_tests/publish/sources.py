"""Tables to publish that need no stack: what catalogs see of a table is its metadata."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tableflow_assets.publish.base import SourceTable

COLUMNS = (
    NestedField(1, "id", LongType(), required=False, doc="The payment's number."),
    NestedField(2, "amount", DecimalType(10, 2), required=False),
    NestedField(
        3,
        "lines",
        ListType(4, StructType(NestedField(5, "text", StringType(), required=False)), False),
        required=False,
    ),
    NestedField(6, "paid_at", TimestamptzType(), required=False),
)
MORE_COLUMNS = (*COLUMNS, NestedField(7, "method", StringType(), required=False, doc="card, …"))


def a_source(name: str | None = None, snapshot: int = 1) -> SourceTable:
    name = name or f"payments_{uuid4().hex[:8]}"
    location = f"s3://lake/shop/{name}"
    return SourceTable(
        name=name,
        topic=name.replace("_", "-"),
        uuid=str(uuid4()),
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
        namespace="shop",
        formats=("iceberg", "delta"),
        schema=Schema(*COLUMNS),
        location=location,
        metadata_location=f"{location}/metadata/{snapshot:05}-m.metadata.json",
        snapshot=snapshot,
        delta_location=f"{location}/_data/table",
        description="One row for each payment.",
    )


def after_a_commit(source: SourceTable) -> SourceTable:
    """The next snapshot of the same table."""
    snapshot = (source.snapshot or 0) + 1
    metadata = f"{source.location}/metadata/{snapshot:05}-m.metadata.json"
    return replace(source, snapshot=snapshot, metadata_location=metadata)


def with_more_columns(source: SourceTable) -> SourceTable:
    return replace(after_a_commit(source), schema=Schema(*MORE_COLUMNS))


def made_anew(source: SourceTable) -> SourceTable:
    """Another table of the same topic, after the first was dropped."""
    return replace(source, uuid=str(uuid4()))
