"""The columns of a Delta table as Unity Catalog lists them: with Spark's types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema

from tableflow_assets.base.sql_names import quoted
from tableflow_assets.publish.base import ListedColumn
from tableflow_assets.table.delta.schema import delta_schema

Json = Mapping[str, Any]

# By the name in a Delta log: Spark's SQL for it, and Unity's name for the type.
_SIMPLE = {
    "boolean": ("boolean", "BOOLEAN"),
    "byte": ("tinyint", "BYTE"),
    "short": ("smallint", "SHORT"),
    "integer": ("int", "INT"),
    "long": ("bigint", "LONG"),
    "float": ("float", "FLOAT"),
    "double": ("double", "DOUBLE"),
    "string": ("string", "STRING"),
    "binary": ("binary", "BINARY"),
    "date": ("date", "DATE"),
    "timestamp": ("timestamp", "TIMESTAMP"),
    "timestamp_ntz": ("timestamp_ntz", "TIMESTAMP_NTZ"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class UnityColumn:
    """One column, with the fields that both clients have for it."""

    name: str
    type_name: str
    type_text: str
    type_json: str
    position: int
    nullable: bool
    comment: str | None = None
    type_precision: int | None = None
    type_scale: int | None = None


def unity_columns(schema: Schema) -> tuple[UnityColumn, ...]:
    """The columns that the table's Delta log has. Raises `UnsupportedInDelta`."""
    fields = json.loads(delta_schema(schema))["fields"]
    return tuple(_column(field, position) for position, field in enumerate(fields))


def listed_column(column: UnityColumn) -> ListedColumn:
    return ListedColumn(column.name, column.type_text, column.comment or "")


def listed_as_answered(column: Json) -> ListedColumn:
    """A column as a catalog describes it.

    The type comes from `type_json` if that can be parsed: another client may have spelled the text of
    the same type differently, for example with other quotes.
    """
    comment = str(column.get("comment") or "")
    return ListedColumn(str(column.get("name")), _answered_type(column), comment)


def _answered_type(column: Json) -> str:
    try:
        kind = json.loads(column.get("type_json") or "null")
        # Databricks stores the whole field, other clients only its type.
        if isinstance(kind, dict) and "name" in kind:
            kind = kind["type"]
        return _text(kind)
    except (ValueError, KeyError, TypeError):
        return str(column.get("type_text") or column.get("type_name") or "")


def _column(field: Json, position: int) -> UnityColumn:
    kind = field["type"]
    decimal = _DECIMAL.fullmatch(kind) if isinstance(kind, str) else None
    return UnityColumn(
        name=field["name"],
        type_name=_name(kind),
        type_text=_text(kind),
        type_json=json.dumps(field),
        position=position,
        nullable=field["nullable"],
        comment=field["metadata"].get("comment"),
        type_precision=int(decimal[1]) if decimal else None,
        type_scale=int(decimal[2]) if decimal else None,
    )


def _name(kind: str | Json) -> str:
    if isinstance(kind, str):
        return "DECIMAL" if _DECIMAL.fullmatch(kind) else _SIMPLE[kind][1]
    return str(kind["type"]).upper()


def _text(kind: str | Json) -> str:
    """Spark's SQL for a type. Spark parses it, so field names are quoted where necessary."""
    if isinstance(kind, str):
        if decimal := _DECIMAL.fullmatch(kind):
            return f"decimal({decimal[1]},{decimal[2]})"
        return _SIMPLE[kind][0] if kind in _SIMPLE else kind
    if kind["type"] == "array":
        return f"array<{_text(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_text(kind['keyType'])},{_text(kind['valueType'])}>"
    fields = (f"{_field_name(field['name'])}:{_text(field['type'])}" for field in kind["fields"])
    return f"struct<{','.join(fields)}>"


def _field_name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else quoted(name)
