"""A topic's table: made once, with the beginning of its ledger in its first snapshot."""

from __future__ import annotations

import fcntl
from datetime import datetime
from pathlib import Path

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.decode.types import KAFKA_COLUMN
from tableflow_assets.settings import Topic
from tableflow_assets.table.ledger import PROPERTY, Entry

TOPIC_PROPERTY = "tableflow.topic"
PARTITION_FIELD = "window"


def create_table(
    catalog: RestCatalog, topic: Topic, schema: Schema, origin: Entry, lock_folder: Path
) -> Table:
    """Create the table with an empty first snapshot that says where in the log it begins."""
    # Not every REST catalog creates atomically: of two creates at once both may succeed, with two
    # different tables. So creation goes through one lock for all processes on this state folder.
    lock_folder.mkdir(parents=True, exist_ok=True)
    with (lock_folder / f"create-{topic.table}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        catalog.ensure_namespace()
        table = catalog.find(topic.table) or _create(catalog, topic, schema)
        if table.current_snapshot() is None:
            nothing = pa.Table.from_batches([], schema=table.schema().as_arrow())
            catalog.ask(
                lambda: table.append(nothing, snapshot_properties={PROPERTY: origin.to_property()})
            )
        return table


def _create(catalog: RestCatalog, topic: Topic, schema: Schema) -> Table:
    properties = {
        TOPIC_PROPERTY: topic.name,
        "format-version": "2",
        "write.parquet.compression-codec": "zstd",
    }
    return catalog.ask(
        lambda: catalog.iceberg.create_table(
            catalog.identifier(topic.table),
            schema,
            partition_spec=_by_window(schema, topic),
            properties=properties,
        )
    )


def _by_window(schema: Schema, topic: Topic) -> PartitionSpec:
    """By the windows of the asset, so that a window is a set of whole files."""
    timestamp = schema.find_field(f"{KAFKA_COLUMN}.timestamp").field_id
    transform: DayTransform[datetime] | HourTransform[datetime]
    transform = DayTransform() if topic.window == "day" else HourTransform()
    return PartitionSpec(
        PartitionField(
            source_id=timestamp, field_id=1000, transform=transform, name=PARTITION_FIELD
        )
    )
