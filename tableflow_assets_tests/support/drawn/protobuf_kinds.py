"""The types of Protobuf: how a field declares them, what may be sent, and what a table then has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from google.protobuf import json_format
from hypothesis import strategies as st

from tableflow_assets_tests.support.drawn.avro import FLOAT, INT, LONG, MICROS, NODES, in_utc
from tableflow_assets_tests.support.drawn.format import TEXT, Kind, Values
from tableflow_assets_tests.support.drawn.same import JsonOf


@dataclass(frozen=True)
class Message(Kind):
    """A leaf that is a message, and how a value gets into it."""

    put: Callable[[Any, Any], object] = lambda message, value: setattr(message, "value", value)


def put_date(message: Any, value: Any) -> None:
    message.year, message.month, message.day = value.year, value.month, value.day


def put_node(message: Any, value: Any) -> None:
    message.v = value["v"]
    if value["next"]:
        put_node(message.next, value["next"])


def put_choice(message: Any, value: tuple[str, Any]) -> None:
    name, content = value
    if name == "nothing":
        message.nothing.SetInParent()
    else:
        setattr(message, name, content)


def as_members(value: tuple[str, Any]) -> dict[str, Any]:
    return dict.fromkeys(("text", "number", "nothing")) | {value[0]: value[1]}


def in_json(node: Any) -> dict[str, Any]:
    """Protobuf's JSON: 64 bits as text, and no field that has its default."""
    number = {"v": str(node["v"])} if node["v"] else {}
    return number | ({"next": in_json(node["next"])} if node["next"] else {})


def suit(number: int) -> str:
    return {0: "NONE", 1: "HEARTS"}.get(number, str(number))


def member(name: str, values: Values) -> Values:
    return values.map(lambda value: (name, value))


UINT, ULONG = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
BYTES, DOUBLE = st.binary(max_size=4), st.floats()
JSON_LEAF = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON_OBJECT = st.dictionaries(TEXT, JSON_LEAF | st.lists(JSON_LEAF, max_size=2), max_size=2)
MOST_MICROSECONDS = 315_576_000_000 * 1_000_000  # Protobuf's own limit
DURATION = st.integers(-MOST_MICROSECONDS, MOST_MICROSECONDS)
SCALARS = {
    "bool": Kind("bool", st.booleans()),
    **{name: Kind(name, INT) for name in ("int32", "sint32", "sfixed32")},
    **{name: Kind(name, LONG) for name in ("int64", "sint64", "sfixed64")},
    **{name: Kind(name, UINT) for name in ("uint32", "fixed32")},
    **{name: Kind(name, ULONG, Decimal) for name in ("uint64", "fixed64")},
    "float": Kind("float", FLOAT),
    "double": Kind("double", DOUBLE),
    "string": Kind("string", TEXT),
    "bytes": Kind("bytes", BYTES),
    "enum": Kind("Suit", st.sampled_from([0, 1, -7]), suit),
}
WRAPPED = {
    "Int32Value": Message("google.protobuf.Int32Value", INT),
    "Int64Value": Message("google.protobuf.Int64Value", LONG),
    "UInt64Value": Message("google.protobuf.UInt64Value", ULONG, Decimal),
    "DoubleValue": Message("google.protobuf.DoubleValue", DOUBLE),
    "StringValue": Message("google.protobuf.StringValue", TEXT),
    "BytesValue": Message("google.protobuf.BytesValue", BYTES),
    "BoolValue": Message("google.protobuf.BoolValue", st.booleans()),
}
MESSAGES = {
    "Timestamp": Message(
        "google.protobuf.Timestamp",
        in_utc(MICROS),
        put=lambda message, value: message.FromDatetime(value),
    ),
    "Duration": Message(
        "google.protobuf.Duration",
        DURATION,
        put=lambda message, value: message.FromMicroseconds(value),
    ),
    "Struct": Message(
        "google.protobuf.Struct",
        JSON_OBJECT,
        JsonOf,
        lambda message, value: json_format.ParseDict(value, message),
    ),
    "Date": Message("google.type.Date", st.dates(), put=put_date),
    "Empty": Message("Nothing", st.just(True), put=lambda _message, _value: None),
    "Node": Message("Node", NODES, lambda value: JsonOf(in_json(value)), put_node),
    "oneof": Message(
        "Choice",
        member("text", TEXT) | member("number", LONG) | member("nothing", st.just(True)),
        as_members,
        put_choice,
    ),
}
KINDS: dict[str, Kind] = SCALARS | WRAPPED | MESSAGES
WIDER = {
    "int32": "int64",
    "sint32": "sint64",
    "sfixed32": "sfixed64",
    "fixed32": "int64",
    "float": "double",
    "Int32Value": "Int64Value",
}
BESIDES = """
    enum Suit { NONE = 0; HEARTS = 1; }
    message Nothing {}
    message Node { int64 v = 1; Node next = 2; }
    message Choice { oneof which { string text = 1; int64 number = 2; Nothing nothing = 3; } }
"""
IMPORTS = "".join(
    f'import "google/{name}.proto";'
    for name in (
        "protobuf/timestamp",
        "protobuf/duration",
        "protobuf/wrappers",
        "protobuf/struct",
        "type/date",
    )
)
