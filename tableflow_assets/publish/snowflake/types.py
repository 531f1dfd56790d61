"""Column types, as far as they can be predicted for Snowflake.

`DESCRIBE` shows precisions and lengths that have changed between Snowflake's releases, such as those of
VARCHAR. So only the family of a type is compared. Nothing slips through: a table's columns change only
together with its metadata file, and that is compared exactly.
"""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableflow_assets.publish.base import ListedColumn

_FAMILIES: dict[type[IcebergType], str] = {
    BooleanType: "BOOLEAN",
    IntegerType: "NUMBER",
    LongType: "NUMBER",
    DecimalType: "NUMBER",
    FloatType: "FLOAT",
    DoubleType: "FLOAT",
    DateType: "DATE",
    TimeType: "TIME",
    TimestampType: "TIMESTAMP_NTZ",
    TimestampNanoType: "TIMESTAMP_NTZ",
    TimestamptzType: "TIMESTAMP_LTZ",
    TimestamptzNanoType: "TIMESTAMP_LTZ",
    StringType: "VARCHAR",
    UUIDType: "BINARY",
    FixedType: "BINARY",
    BinaryType: "BINARY",
    StructType: "OBJECT",
    ListType: "ARRAY",
    MapType: "MAP",
}


def listed_columns(schema: Schema) -> tuple[ListedColumn, ...]:
    """In upper case, as Snowflake reads unquoted names. Column comments are not ours to set."""
    return tuple(
        ListedColumn(field.name.upper(), _FAMILIES.get(type(field.field_type), "VARIANT"))
        for field in schema.fields
    )


def type_family(described: str) -> str:
    """Of a type as DESCRIBE shows it: NUMBER of NUMBER(10,2)."""
    return described.partition("(")[0].strip().upper()
