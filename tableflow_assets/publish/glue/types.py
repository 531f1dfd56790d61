"""A table's columns as Glue lists them: names, types and comments that Glue, Hive and Athena can hold.

Readers of Iceberg and Delta take names and types from the table itself. What Glue lists is for people,
for Athena's list of columns and for Lake Formation's rights on columns. So a column that Glue cannot list
as it is gets the nearest thing that it can, and the others stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
)

# Glue's limits, in bytes.
MAX_NAME = 255
MAX_COMMENT = 255
MAX_TYPE = 131_072

# All others are listed as string: also what Hive has no type for, such as a time of day or a UUID.
_TYPES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "int",
    LongType: "bigint",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp",
    TimestamptzType: "timestamp",
    TimestampNanoType: "timestamp",
    TimestamptzNanoType: "timestamp",
    FixedType: "binary",
    BinaryType: "binary",
    GeometryType: "binary",
    GeographyType: "binary",
}


def glue_columns(schema: Schema) -> list[dict[str, Any]]:
    """For Glue's `Columns`, with the parameters that Iceberg's own Glue catalog sets."""
    names = _unique([field.name for field in schema.fields], _one_line)
    return [_column(name, field) for name, field in zip(names, schema.fields, strict=True)]


def _column(name: str, field: NestedField) -> dict[str, Any]:
    kind, comment = glue_type(field.field_type), field.doc or ""
    if len(kind.encode()) > MAX_TYPE:
        kind, comment = "string", f"(its type is too long for Glue) {comment}"
    column: dict[str, Any] = {
        "Name": name,
        "Type": kind,
        "Parameters": {
            "iceberg.field.id": str(field.field_id),
            "iceberg.field.optional": str(field.optional).lower(),
            "iceberg.field.current": "true",
        },
    }
    if comment := cut(_one_line(comment).strip(), MAX_COMMENT):
        column["Comment"] = comment
    return column


def glue_type(kind: IcebergType) -> str:
    """As a Hive type in lower case, which is how Athena shows it."""
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision},{kind.scale})"
    if isinstance(kind, ListType):
        return f"array<{glue_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{glue_type(kind.key_type)},{glue_type(kind.value_type)}>"
    if isinstance(kind, StructType) and kind.fields:
        names = _unique([field.name for field in kind.fields], _word)
        types = [glue_type(field.field_type) for field in kind.fields]
        return f"struct<{','.join(f'{n}:{t}' for n, t in zip(names, types, strict=True))}>"
    return _TYPES.get(type(kind), "string")


def cut(text: str, limit: int) -> str:
    """At most so many bytes, without splitting a character."""
    data = text.encode(errors="replace")
    return data[:limit].decode(errors="ignore") if len(data) > limit else data.decode()


def _unique(names: Sequence[str], spelled: Callable[[str], str]) -> list[str]:
    """In lower case and without duplicates: names that already are stay, the others may get a number."""
    spellings = [cut(spelled(name).lower(), MAX_NAME) for name in names]
    taken = {name for name, spelling in zip(names, spellings, strict=True) if name == spelling}
    for index, name in enumerate(names):
        if spellings[index] == name:
            continue
        spelling, number = spellings[index], 2
        while spelling in taken:
            suffix = f"_{number}"
            spelling, number = cut(spellings[index], MAX_NAME - len(suffix)) + suffix, number + 1
        taken.add(spelling)
        spellings[index] = spelling
    return spellings


def _one_line(text: str) -> str:
    """Glue allows anything in names and comments but control characters and invalid text."""
    return re.sub(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]", " ", text)


def _word(name: str) -> str:
    """Inside a type, a name ends at the first character that is not one of these."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
