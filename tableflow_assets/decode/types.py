"""The columns of a topic's table."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.column_names import KAFKA_COLUMN
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.settings.blocks import Mode

KEYED_MODES = ("upsert", "cdc")  # one row per key
# Iceberg's metadata columns: a table with a column of such a name cannot be read.
ICEBERG_NAMES = (
    *("_file", "_pos", "_deleted", "_spec_id", "_partition", "_row_id"),
    "_last_updated_sequence_number",
)

_KAFKA_DOC = "Where this row comes from: its place in the Kafka log."
_KEY_HASH_DOC = "Equal for equal keys: the first half of the SHA-256 of the decoded key"
_KEY_TIMESTAMP_DOC = (
    "The key's largest timestamp in this partition: decides when it moves to another"
)


def table_schema(schemas: Schemas, mode: Mode = "append") -> Schema:
    """The registry's fields as columns, plus ``_kafka``: where each row comes from.

    In mode `cdc` the columns are those of the changed row, which Debezium's envelope has in `after`.
    """
    builder = ColumnBuilder(schemas.subject.name if schemas.subject else "the value")
    columns = schemas.value.columns(builder)
    if mode == "cdc":
        columns = _changed_row(columns, builder.subject)
    _refuse_our_own_names(columns, builder)
    if columns:
        builder.struct(columns, ())  # refuses names that differ only in case
    kafka = kafka_struct(builder, mode, schemas.key)
    return Schema(*columns, builder.field(KAFKA_COLUMN, kafka, _KAFKA_DOC))


def kafka_struct(builder: ColumnBuilder, mode: Mode, key: Serialization) -> StructType:
    field = builder.field
    header = StructType(field("key", StringType()), field("value", BinaryType()))
    key_fields = []
    if not isinstance(key, Raw):
        key_fields = [field("decoded_key", key.type(builder), "The record's key, typed")]
    if mode in KEYED_MODES:
        key_fields += [
            field("key_hash", BinaryType(), _KEY_HASH_DOC),
            field("key_timestamp", TimestamptzType(), _KEY_TIMESTAMP_DOC),
        ]
    return StructType(
        field("partition", IntegerType(), "Kafka partition"),
        field("offset", LongType(), "Offset within the partition"),
        field("timestamp", TimestamptzType(), "The record's timestamp"),
        field("key", BinaryType(), "The record's key, as it was sent"),
        field("headers", builder.list_of(header), "The record's headers"),
        field("schema_id", IntegerType(), "The registry's id of the schema it was written with"),
        *key_fields,
    )


def _changed_row(envelope: list[NestedField], subject: str) -> list[NestedField]:
    kinds: dict[str, IcebergType] = {field.name: field.field_type for field in envelope}
    after = kinds.get("after")
    if not isinstance(after, StructType) or not isinstance(kinds.get("op"), StringType):
        raise UnsupportedSchema(
            f"{subject} is not a Debezium envelope: it needs a record `after` and a string `op`.",
            "Set `mode: upsert` for values without an envelope, or `mode: append` to keep them all.",
        )
    return list(after.fields)


def _refuse_our_own_names(columns: list[NestedField], builder: ColumnBuilder) -> None:
    for column in columns:
        name = column.name.lower()
        if name.startswith(KAFKA_COLUMN) or name in ICEBERG_NAMES:
            owner = "Iceberg" if name in ICEBERG_NAMES else "Tableflow"
            raise UnsupportedSchema(
                f"{builder.subject} has a field called {column.name!r}: {owner} needs that name for"
                " itself.",
                "Rename the field.",
            )
