"""An Iceberg schema in Delta's terms, such that both read the same Parquet files."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from pyiceberg.schema import Schema, index_by_id
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
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.base.errors import UnsupportedInDelta
from tableflow_assets.table.schema_diff import is_wider

COLUMN_MAPPING, TIMESTAMP_NTZ = "columnMapping", "timestampNtz"

_SIMPLE: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
    DateType: "date",
    TimestamptzType: "timestamp",
    TimestampType: "timestamp_ntz",
}

Json = dict[str, Any]
Types = dict[int, list[IcebergType]]


def delta_schema(schema: Schema, history: Mapping[int, Schema] | None = None) -> str:
    """What `metaData.schemaString` holds. ``history``: all schemas of the table, by their ids."""
    return json.dumps(_struct(schema.as_struct(), _narrower(schema, history), ()))


def features(schema: Schema, _history: Mapping[int, Schema] | None = None) -> tuple[str, ...]:
    """The table features (by Delta's names) that a reader needs for these columns.

    Without `typeWidening`, though a widened column would call for it: delta-rs refuses a table that
    names it. The three readers in our tests widen the values of older files anyway, and a column's
    `delta.typeChanges` says what there is to widen.
    """
    kinds = [field.field_type for field in index_by_id(schema).values()]
    has_ntz = any(isinstance(kind, TimestampType) for kind in kinds)
    return (COLUMN_MAPPING, TIMESTAMP_NTZ) if has_ntz else (COLUMN_MAPPING,)


def physical_name(name: str) -> str:
    """The column's name in the files: Iceberg writes only letters, digits and `_` into them.

    Java counts in UTF-16 units: a character outside its basic plane is two, and neither is a letter.
    """
    utf16 = name.encode("utf-16-be", "surrogatepass")
    units = [chr(int.from_bytes(utf16[at : at + 2], "big")) for at in range(0, len(utf16), 2)]
    return "".join(_in_file(unit, first=at == 0) for at, unit in enumerate(units))


def _in_file(character: str, *, first: bool) -> str:
    category = unicodedata.category(character)
    if character == "_" or category.startswith("L") or (category == "Nd" and not first):
        return character
    return f"_{character}" if category == "Nd" else f"_x{ord(character):X}"


def _narrower(schema: Schema, history: Mapping[int, Schema] | None) -> Types:
    """The types that a column had before it was widened, narrowest first, by field id."""
    current_types = {at: field.field_type for at, field in index_by_id(schema).items()}
    earlier_types: dict[int, set[IcebergType]] = {}
    for former in (history or {}).values():
        for at, field in index_by_id(former).items():
            if at in current_types and is_wider(current_types[at], than=field.field_type):
                earlier_types.setdefault(at, set()).add(field.field_type)
    return {at: sorted(kinds, key=_width) for at, kinds in earlier_types.items()}


def _width(kind: IcebergType) -> int:
    # Other types are widened only once.
    return kind.precision if isinstance(kind, DecimalType) else 0


def _struct(struct: StructType, narrower: Types, path: tuple[str, ...]) -> Json:
    owners: dict[str, str] = {}
    for field in struct.fields:
        owner = owners.setdefault(physical_name(field.name), field.name)
        if owner != field.name:
            raise _unsupported((*path, field.name), f"its name in the files is that of {owner!r}")
    return {"type": "struct", "fields": [_field(field, narrower, path) for field in struct.fields]}


def _field(field: NestedField, narrower: Types, path: tuple[str, ...]) -> Json:
    metadata: Json = {
        "delta.columnMapping.id": field.field_id,
        "delta.columnMapping.physicalName": physical_name(field.name),
    }
    if field.doc:
        metadata["comment"] = field.doc
    if changes := list(_changes(field, narrower, ())):
        metadata["delta.typeChanges"] = changes
    return {
        "name": field.name,
        "type": _type(field.field_type, narrower, (*path, field.name)),
        # Even where Iceberg requires it: Delta's writers would need one more feature.
        "nullable": True,
        "metadata": metadata,
    }


def _changes(field: NestedField, narrower: Types, inside: tuple[str, ...]) -> Iterator[Json]:
    """How the field was widened, or the parts of its lists and maps; fields of structs have their own."""
    kind = field.field_type
    for part in _parts(kind):
        yield from _changes(part, narrower, (*inside, part.name))
    steps = [*narrower.get(field.field_id, []), kind]
    for before, after in pairwise(steps):
        change = {"fromType": _type(before, {}, ()), "toType": _type(after, {}, ())}
        yield change | ({"fieldPath": ".".join(inside)} if inside else {})


def _parts(kind: IcebergType) -> tuple[NestedField, ...]:
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def _type(kind: IcebergType, narrower: Types, path: tuple[str, ...]) -> str | Json:
    match kind:
        case StructType():
            return _struct(kind, narrower, path)
        case ListType():
            element = _type(kind.element_type, narrower, (*path, "element"))
            return {"type": "array", "elementType": element, "containsNull": True}
        case MapType():
            key = _type(kind.key_type, narrower, (*path, "key"))
            value = _type(kind.value_type, narrower, (*path, "value"))
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case _ if type(kind) in _SIMPLE:
            return _SIMPLE[type(kind)]
        case _:
            raise _unsupported(path, f"Delta has no type for {kind}")


def _unsupported(path: tuple[str, ...], why: str) -> UnsupportedInDelta:
    return UnsupportedInDelta(
        f"The column {'.'.join(path)!r} cannot be in a Delta table: {why}.",
        "Set `formats: [iceberg]` for this topic.",
    )
