"""What the keywords of one JSON Schema say by themselves, without the schemas inside it."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tableflow_assets.decode.json.shape import Leaf, Shape, either

_FORMATS = {"date": Leaf.DATE, "date-time": Leaf.TIMESTAMP}
_CONNECT_NUMBERS = {
    "int8": Leaf.INT,
    "int16": Leaf.INT,
    "int32": Leaf.INT,
    "int64": Leaf.LONG,
    "float32": Leaf.FLOAT,
    "float64": Leaf.DOUBLE,
    "bytes": Leaf.JSON,  # a Decimal
}
_CONNECT_INTEGERS = {
    "org.apache.kafka.connect.data.Date": Leaf.EPOCH_DAYS,
    "org.apache.kafka.connect.data.Timestamp": Leaf.EPOCH_MILLIS,
}


def leaf_of(kind: object, schema: dict[str, Any]) -> Leaf:
    if kind == "null":
        return Leaf.NULL
    if kind == "boolean":
        return Leaf.BOOLEAN
    if kind == "string":
        return _string(schema)
    connect_type = str(schema.get("connect.type"))
    if kind == "integer":
        logical = _CONNECT_INTEGERS.get(str(schema.get("title")))
        return logical or _CONNECT_NUMBERS.get(connect_type, Leaf.LONG)
    if kind == "number":
        return _CONNECT_NUMBERS.get(connect_type, Leaf.DOUBLE)
    return Leaf.JSON


def _string(schema: dict[str, Any]) -> Leaf:
    is_base64 = str(schema.get("contentEncoding")).lower() == "base64"
    if is_base64 or schema.get("connect.type") == "bytes":
        return Leaf.BYTES
    return _FORMATS.get(str(schema.get("format")), Leaf.STRING)


def implied_type(schema: dict[str, Any]) -> str | None:
    """The type that a schema's other keywords imply, if it has no `type`."""
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema or "prefixItems" in schema else None


def shape_of_values(schema: dict[str, Any]) -> Shape:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or not values:
        return Leaf.JSON
    return reduce(either, (_shape_of_value(value) for value in values))


def _shape_of_value(value: object) -> Shape:
    if isinstance(value, int) and not isinstance(value, bool):
        return Leaf.LONG if -(2**63) <= value < 2**63 else Leaf.JSON
    kinds = {type(None): Leaf.NULL, bool: Leaf.BOOLEAN, float: Leaf.DOUBLE, str: Leaf.STRING}
    return kinds.get(type(value), Leaf.JSON)


def ordered_keys(properties: dict[str, Any]) -> list[str]:
    """As written, unless they are numbered, as by Kafka Connect, which writes them in any order."""
    numbers = {
        key: schema.get("connect.index") if isinstance(schema, dict) else None
        for key, schema in properties.items()
    }
    if all(isinstance(number, int) for number in numbers.values()):
        return sorted(properties, key=lambda key: int(numbers[key] or 0))
    return list(properties)


def doc_of(schema: dict[str, Any]) -> str | None:
    docs = (schema.get("description"), schema.get("title"))
    return next((doc for doc in docs if isinstance(doc, str) and doc), None)
