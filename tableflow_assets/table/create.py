"""A topic's table: made once, with the beginning of its ledger in its first snapshot."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, Transform

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.decode.types import KAFKA_COLUMN
from tableflow_assets.errors import ModeChanged
from tableflow_assets.settings import Topic
from tableflow_assets.table.ledger import PROPERTY, Entry

TOPIC_PROPERTY = "tableflow.topic"
MODE_PROPERTY = "tableflow.mode"
# No column can have these names: fields of values that begin with `_kafka` are refused.
PARTITION_FIELD, KEY_BUCKET = "_kafka_window", "_kafka_key_bucket"


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
    return catalog.ask(
        lambda: catalog.iceberg.create_table(
            catalog.identifier(topic.table),
            schema,
            partition_spec=_partitioning(schema, topic),
            properties=_properties(topic) | mode_property(topic) | {"format-version": "2"},
        )
    )


def lay_out(catalog: RestCatalog, table: Table, topic: Topic) -> None:
    """Give an existing table the layout of the topic's mode: for what is written from now on.

    Its schema must have the mode's columns already. Rows that are there stay as they are, and so does
    the mode that the table names, until there are rows of the new one.
    """

    def commit() -> None:
        wanted = _partitioning(table.schema(), topic).fields[0]
        with table.transaction() as transaction:
            transaction.set_properties(_properties(topic))
            if [field.name for field in table.spec().fields] != [wanted.name]:
                with transaction.update_spec() as update:
                    for field in table.spec().fields:
                        update.remove_field(field.name)
                    source = table.schema().find_column_name(wanted.source_id)
                    update.add_field(str(source), wanted.transform, wanted.name)

    catalog.ask(commit)


def mode_of(table: Table) -> str:
    return table.properties.get(MODE_PROPERTY, "append")


def mode_property(topic: Topic) -> dict[str, str]:
    return {MODE_PROPERTY: topic.mode}


def refuse_another_mode(table: Table, topic: Topic) -> None:
    if mode_of(table) != topic.mode:
        raise ModeChanged(
            f"The table {'.'.join(table.name())} was made in mode {mode_of(table)}; the settings now"
            f" say {topic.mode} for {topic.name!r}.",
            f"Set it back, or build the table anew from the log: tableflow rebuild {topic.name}",
        )


def _properties(topic: Topic) -> dict[str, str]:
    # With keys: mark replaced rows instead of rewriting their files, so that the cost of a batch
    # follows the batch; one file of marks for each bucket, not for each file.
    return {
        TOPIC_PROPERTY: topic.name,
        "write.parquet.compression-codec": "zstd",
        "write.delete.mode": "merge-on-read" if topic.is_keyed else "copy-on-write",
        "write.delete.granularity": "partition",
    }


def _partitioning(schema: Schema, topic: Topic) -> PartitionSpec:
    """By the asset's windows, so that a window is a set of whole files; with keys, by the key."""
    source, name = f"{KAFKA_COLUMN}.timestamp", PARTITION_FIELD
    transform: Transform[Any, int] = DayTransform() if topic.window == "day" else HourTransform()
    if topic.is_keyed:
        source, name = f"{KAFKA_COLUMN}.key_hash", f"{KEY_BUCKET}_{topic.key_buckets}"
        transform = BucketTransform(topic.key_buckets)
    field_id = schema.find_field(source).field_id
    return PartitionSpec(
        PartitionField(source_id=field_id, field_id=1000, transform=transform, name=name)
    )
