"""The type mapping: which Iceberg type the scalar values of every serialization have.

Lists, maps and records keep their kind. How they are built, and what becomes of unions and of types
that contain themselves, is in `avro/schema`, `protobuf/shape` and `json/schema`. docs/types.md has all of
it as one table, and a test checks every row.
"""

from __future__ import annotations

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.decode.avro.types import TEXT

AVRO: dict[str, IcebergType] = {
    "null": StringType(),  # always NULL: elements and values, of which only the number or the keys are known
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "enum": StringType(),
    "fixed": BinaryType(),
    TEXT: StringType(),
}
# Decimals keep their precision and scale; other logical types are ignored.
AVRO_LOGICAL: dict[str, IcebergType] = {
    "date": DateType(),
    "timestamp-millis": TimestamptzType(),
    "timestamp-micros": TimestamptzType(),
    "local-timestamp-millis": TimestampType(),
    "local-timestamp-micros": TimestampType(),
}
PROTOBUF: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "unsigned": DecimalType(20, 0),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "json": StringType(),
    "binary": BinaryType(),
    "timestamp": TimestamptzType(),
    "date": DateType(),
    "duration": LongType(),
}
JSON: dict[str, IcebergType] = {
    "BOOLEAN": BooleanType(),
    "INT": IntegerType(),
    "LONG": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "STRING": StringType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestamptzType(),
    "BYTES": BinaryType(),
    "EPOCH_DAYS": DateType(),
    "EPOCH_MILLIS": TimestamptzType(),
    "JSON": StringType(),
    "NULL": StringType(),
}
