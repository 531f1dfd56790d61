"""JSON Schemas and values."""

from __future__ import annotations

import datetime as dt
import json
from base64 import b64decode, b64encode
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from hypothesis import strategies as st

from tableflow_assets_tests.support.drawn.avro import INT, LONG, in_utc
from tableflow_assets_tests.support.drawn.format import BY_TOPIC, TEXT, Format, Kind, Values, Write
from tableflow_assets_tests.support.drawn.same import JsonOf
from tableflow_assets_tests.support.drawn.shapes import (
    Array,
    Field,
    Leaf,
    Map,
    Maybe,
    Record,
    Rules,
    Shape,
)

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
# What some engine could not say, and what it is in a column's name.
ESCAPED = {".": "_x002E_", "`": "_x0060_", '"': "_x0022_"}
ENDINGS = ("", "", "", ".a", ' "b" ü', "`")
NOT_IN_THE_SCHEMA = "something else"


def of_type(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return of_type(kind, **{"connect.type": name}, **more)


def of_connect(name: str, stored: str) -> dict[str, Any]:
    return connect("integer", stored, title=f"org.apache.kafka.connect.data.{name}")


def in_any_zone(moment: dt.datetime) -> st.SearchStrategy[str]:
    minutes = st.integers(-14 * 60, 14 * 60)
    zones = minutes.map(lambda each: dt.timezone(dt.timedelta(minutes=each)))
    return zones.map(lambda zone: moment.astimezone(zone).isoformat())


def numbers(**more: Any) -> Values:
    return st.floats(allow_nan=False, allow_infinity=False, **more)


def text_of(value: Any) -> JsonOf | None:
    return None if value is None else JsonOf(value)


MOMENTS = in_utc(st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 12, 31)))
ANYTHING = st.recursive(
    st.none() | st.booleans() | LONG | numbers() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=3,
)
POINT = of_type(
    "object", properties={"x": of_type("number"), "label": of_type("string")}, required=["x"]
)
POINTS = st.fixed_dictionaries({"x": numbers()}, optional={"label": TEXT})
OTHER = of_type("object", properties={"n": of_type("integer")}, required=["n"])
OTHERS = st.fixed_dictionaries({"n": LONG})
KINDS = {
    "boolean": Kind(of_type("boolean"), st.booleans()),
    "integer": Kind(of_type("integer"), LONG),
    "number": Kind(of_type("number"), numbers() | INT, float),
    "string": Kind(of_type("string"), TEXT),
    "date": Kind(of_type("string", format="date"), st.dates().map(str), dt.date.fromisoformat),
    "date-time": Kind(
        of_type("string", format="date-time"),
        MOMENTS.flatmap(in_any_zone),
        lambda text: dt.datetime.fromisoformat(text).astimezone(dt.UTC),
    ),
    "enum": Kind({"enum": ["A", "B"]}, st.sampled_from(["A", "B"])),
    "int32": Kind(connect("integer", "int32"), INT),
    "int64": Kind(connect("integer", "int64"), LONG),
    "float32": Kind(connect("number", "float32"), numbers(width=32)),
    "float64": Kind(connect("number", "float64"), numbers()),
    # Not just {}: a map of which nothing is known is text as a whole.
    "anything": Kind({"description": "anything"}, ANYTHING, text_of),
    "several": Kind({"type": ["string", "integer"]}, TEXT | LONG, JsonOf),
    "whole or not": Kind(
        {"anyOf": [of_type("integer"), of_type("number")]}, INT | numbers(), float
    ),
    "$ref": Kind({"$ref": "#/definitions/point"}, POINTS),
    "objects": Kind({"oneOf": [POINT, OTHER]}, POINTS | OTHERS),
    "recursive": Kind(
        {"$ref": "#/definitions/node"},
        st.sampled_from([{}, {"next": {}}, {"next": {"next": {}}}]),
        lambda value: {"next": text_of(value.get("next"))},
    ),
    "base64": Kind(
        of_type("string", contentEncoding="base64"),
        st.binary(max_size=4).map(lambda content: b64encode(content).decode()),
        b64decode,
    ),
    "Connect's Date": Kind(
        of_connect("Date", "int32"),
        st.integers(-700_000, 2_900_000),
        lambda days: dt.date(1970, 1, 1) + dt.timedelta(days),
    ),
    "Connect's Timestamp": Kind(
        of_connect("Timestamp", "int64"),
        st.integers(-(10**13), 10**14),
        lambda milliseconds: EPOCH + dt.timedelta(milliseconds=milliseconds),
    ),
}
DEFINITIONS = {
    "point": POINT,
    "node": of_type("object", properties={"next": {"$ref": "#/definitions/node"}}),
}


class JsonSchema(Format):
    """A field that may be null may also be missing."""

    kinds = KINDS
    rules = Rules(
        leaves=tuple(KINDS),
        wider={"int32": "int64", "float32": "float64"},
        never_maybe=frozenset(("anything",)),
        field_name=lambda number: f"f{number}{ENDINGS[number % len(ENDINGS)]}",
    )

    def write(self, record: Record, registry: SchemaRegistryClient) -> Write:
        schema = {"title": record.name, **schema_of(record), "definitions": DEFINITIONS}
        serializer: Write = JSONSerializer(json.dumps(schema), registry, conf=BY_TOPIC)
        return serializer

    def column(self, field: Field) -> str:
        return "".join(ESCAPED.get(character, character) for character in field.name)

    def values(self, shape: Shape) -> Values:
        if not isinstance(shape, Record):
            return super().values(shape)
        fields = {field.name: field.shape for field in shape.fields}
        may_miss = {name for name, inner in fields.items() if isinstance(inner, Maybe)}
        known = {name: self.values(inner) for name, inner in fields.items()}
        return st.fixed_dictionaries(
            {name: known[name] for name in known if name not in may_miss},
            optional={name: known[name] for name in may_miss} | {NOT_IN_THE_SCHEMA: ANYTHING},
        )


def schema_of(shape: Shape) -> dict[str, Any]:
    match shape:
        case Leaf(kind):
            return dict(KINDS[kind].schema)
        case Maybe(inner):
            return or_null(schema_of(inner))
        case Array(element):
            return of_type("array", items=schema_of(element))
        case Map(_, value):
            return of_type("object", additionalProperties=schema_of(value))
        case Record(_, fields):
            properties = {field.name: schema_of(field.shape) for field in fields}
            return of_type("object", properties=properties)


def or_null(schema: dict[str, Any]) -> dict[str, Any]:
    """In one of the two ways that people write it."""
    if not isinstance(schema.get("type"), str) or "connect.type" in schema:
        return {"oneOf": [{"type": "null"}, schema]}
    return {**schema, "type": [schema["type"], "null"]}
