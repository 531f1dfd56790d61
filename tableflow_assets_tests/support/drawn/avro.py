"""Avro schemas and values."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from hypothesis import strategies as st

from tableflow_assets_tests.support.drawn.format import BY_TOPIC, TEXT, Format, Kind, Values, Write
from tableflow_assets_tests.support.drawn.same import JsonOf
from tableflow_assets_tests.support.drawn.shapes import (
    Array,
    Leaf,
    Map,
    Maybe,
    Record,
    Rules,
    Shape,
)

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
FLOAT = st.floats(width=32)
MICROS = st.datetimes()
MILLIS = MICROS.map(lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000))


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def record(name: str, **fields: Any) -> dict[str, Any]:
    described = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": described}


def in_utc(moments: Values) -> Values:
    return moments.map(lambda moment: moment.replace(tzinfo=dt.UTC))


def decimals(precision: int, scale: int) -> Values:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda digits: Decimal(f"{digits}E-{scale}"))


def microseconds(time: dt.time) -> int:
    seconds = (time.hour * 60 + time.minute) * 60 + time.second
    return seconds * 1_000_000 + time.microsecond


def member(kind: str, values: Values) -> Values:
    """fastavro wants to know which member of a union a value is, where it could be two."""
    return values.map(lambda value: (kind, value))


def as_members(value: tuple[str, Any] | None) -> dict[str, Any] | None:
    if value is None:
        return None
    nothing: dict[str, Any] = {f"member_{name}": None for name in ("string", "long", "Point")}
    return nothing | {f"member_{value[0]}": value[1]}


POINT = record("Point", x="float", label=["null", "string"])
POINTS = st.fixed_dictionaries({"x": FLOAT, "label": st.none() | TEXT})
NODE = record("Node", v="long", next=["null", "Node"])
NODES = st.recursive(
    st.fixed_dictionaries({"v": LONG, "next": st.none()}),
    lambda nodes: st.fixed_dictionaries({"v": LONG, "next": nodes}),
    max_leaves=3,
)
KINDS = {
    "boolean": Kind("boolean", st.booleans()),
    "int": Kind("int", INT),
    "long": Kind("long", LONG),
    "float": Kind("float", FLOAT),
    "double": Kind("double", st.floats()),
    "string": Kind("string", TEXT),
    "bytes": Kind("bytes", st.binary(max_size=4)),
    "enum": Kind(
        {"type": "enum", "name": "Suit", "symbols": ["A", "B"]}, st.sampled_from(["A", "B"])
    ),
    "fixed": Kind(fixed("Two", 2), st.binary(min_size=2, max_size=2)),
    "duration": Kind(
        fixed("Period", 12, logicalType="duration"), st.binary(min_size=12, max_size=12)
    ),
    "decimal(9, 2)": Kind(
        logical("bytes", "decimal", precision=9, scale=2), decimals(precision=9, scale=2)
    ),
    "decimal(38, 2)": Kind(
        logical("bytes", "decimal", precision=38, scale=2), decimals(precision=38, scale=2)
    ),
    "fixed decimal": Kind(
        fixed("Money", 8, logicalType="decimal", precision=18, scale=0),
        decimals(precision=18, scale=0),
    ),
    "uuid": Kind(logical("string", "uuid"), st.uuids(), UUID.__str__),
    "date": Kind(logical("int", "date"), st.dates()),
    "time-millis": Kind(
        logical("int", "time-millis"), st.times(), lambda time: microseconds(time) // 1000
    ),
    "time-micros": Kind(logical("long", "time-micros"), st.times(), microseconds),
    "timestamp-millis": Kind(logical("long", "timestamp-millis"), in_utc(MILLIS)),
    "timestamp-micros": Kind(logical("long", "timestamp-micros"), in_utc(MICROS)),
    "local-timestamp-millis": Kind(logical("long", "local-timestamp-millis"), MILLIS),
    "local-timestamp-micros": Kind(logical("long", "local-timestamp-micros"), MICROS),
    "named": Kind(POINT, POINTS),
    "recursive": Kind(NODE, NODES, JsonOf),
    "whole numbers": Kind(
        ["int", "long"], member("int", INT) | member("long", LONG), lambda value: value[1]
    ),
    "numbers": Kind(
        ["null", "float", "double"],
        st.none() | member("float", FLOAT) | member("double", st.floats()),
        lambda value: value and value[1],
    ),
    "union": Kind(
        ["null", "string", "long", POINT],
        st.none() | member("string", TEXT) | member("long", LONG) | member("Point", POINTS),
        as_members,
    ),
}
WIDER = {"int": "long", "float": "double", "decimal(9, 2)": "decimal(38, 2)"}


class Avro(Format):
    kinds = KINDS
    rules = Rules(
        leaves=tuple(KINDS),
        wider=WIDER,
        never_maybe=frozenset(("whole numbers", "numbers", "union")),
    )

    def write(self, record: Record, registry: SchemaRegistryClient) -> Write:
        schema = json.dumps(_Text().schema(record))
        serializer: Write = AvroSerializer(registry, schema, conf=BY_TOPIC)
        return serializer


class _Text:
    """A named type is written out once, and from then on called by its name."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def schema(self, shape: Shape) -> Any:
        match shape:
            case Leaf(kind):
                return self._once(KINDS[kind].schema)
            case Maybe(inner):
                return ["null", self.schema(inner)]
            case Array(element):
                return {"type": "array", "items": self.schema(element)}
            case Map(_, value):
                return {"type": "map", "values": self.schema(value)}
            case Record(name, fields):
                shapes = {field.name: field.shape for field in fields}
                described = [
                    {"name": field, "type": self.schema(inner)}
                    | ({"default": None} if isinstance(inner, Maybe) else {})
                    for field, inner in shapes.items()
                ]
                return {"type": "record", "name": name, "fields": described}

    def _once(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self._once(branch) for branch in schema]
        if not isinstance(schema, dict) or "name" not in schema:
            return schema
        if schema["name"] in self._named:
            return schema["name"]
        self._named.add(schema["name"])
        return schema
