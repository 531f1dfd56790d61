"""One value for every row of docs/types.md, and what it must be in the table."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from google.protobuf import json_format

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)
LOCAL = MOMENT.replace(tzinfo=None)
MICRO = timedelta(microseconds=1)
ITEM, IN_ITEM = {"sku": "x", "count": 3}, {"sku": "string", "count": "int"}


class Case(NamedTuple):
    schema: Any  # of the field
    sent: Any
    expected: Any


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def fixed(name: str, size: int, **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def record(name: str, **fields: Any) -> dict[str, Any]:
    described = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": described}


def same(schema: Any, value: Any) -> Case:
    return Case(schema, value, value)


AVRO = {
    "`boolean`": same("boolean", True),
    "`int`": same("int", -(2**31)),
    "`long`": same("long", 2**63 - 1),
    "`float`": same("float", 0.5),
    "`double`": same("double", 0.1),
    "`string`": same("string", "Zoë 🚂"),
    "`enum`": same({"type": "enum", "name": "Suit", "symbols": ["A", "B"]}, "B"),
    "`bytes`": same("bytes", b"\x00\xff"),
    "`fixed`": same(fixed("Two", 2), b"\x00\xff"),
    "`decimal` on `bytes`": same(
        logical("bytes", "decimal", precision=9, scale=2), Decimal("-1234567.89")
    ),
    "`decimal` on `fixed`": same(
        fixed("Money", 4, logicalType="decimal", precision=9, scale=2), Decimal("1.50")
    ),
    "`uuid`": Case(logical("string", "uuid"), UUID(int=7), str(UUID(int=7))),
    "`date`": same(logical("int", "date"), date(1969, 12, 31)),
    "`time-millis`": Case(logical("int", "time-millis"), time(1), 3_600_000),
    "`time-micros`": Case(logical("long", "time-micros"), time(1, 0, 0, 1), 3_600_000_001),
    "`timestamp-millis`": same(logical("long", "timestamp-millis"), MOMENT),
    "`timestamp-micros`": same(logical("long", "timestamp-micros"), MOMENT + MICRO),
    "`local-timestamp-millis`": same(logical("long", "local-timestamp-millis"), LOCAL),
    "`local-timestamp-micros`": same(logical("long", "local-timestamp-micros"), LOCAL + MICRO),
    "`duration`": same(fixed("Period", 12, logicalType="duration"), b"\x01" * 12),
    "`array`": same({"type": "array", "items": "int"}, [1, 2, 3]),
    "`map`": same({"type": "map", "values": "long"}, {"a": 1, "b": 2**40}),
    "`record`": same(record("Item", **IN_ITEM), ITEM),
    "a named type, used again": same("Item", ITEM),
    '`["null", X]`': same(["null", "int"], 7),
    '`["int", "long"]`': same(["int", "long"], 7),
    '`["float", "double"]`': same(["float", "double"], 0.5),
    '`["string", "int", record]`': Case(
        ["string", "int", record("Thing", a="int")],
        {"a": 4},
        {"member_string": None, "member_int": None, "member_Thing": {"a": 4}},
    ),
    "`array` of `null`": same({"type": "array", "items": "null"}, [None, None]),
    "`map` of `null`": same({"type": "map", "values": "null"}, {"a": None}),
    "a record that contains itself": Case(
        record("Node", v="int", next=["null", "Node"]),
        {"v": 1, "next": {"v": 2, "next": None}},
        {"v": 1, "next": {"v": 2, "next": None}},
    ),
    '`["int", record that contains itself]`': Case(
        ["int", record("Leaf", v="int", next=["null", "Leaf"])],
        {"v": 1, "next": None},
        {"v": 1, "next": None},
    ),
}


def avro_schema() -> dict[str, Any]:
    return record("Everything", **{f"f{n}": case.schema for n, case in enumerate(AVRO.values())})


# Of Protobuf, the schema is the field's declaration without its name and number; `sent` is as in
# Protobuf's JSON.
PROTOBUF = {
    "`bool`": same("bool", True),
    "`int32`, `sint32`, `sfixed32`": same("sint32", -(2**31)),
    "`int64`, `sint64`, `sfixed64`": same("sfixed64", 2**63 - 1),
    "`uint32`, `fixed32`": same("uint32", 2**32 - 1),
    "`uint64`, `fixed64`": Case("uint64", 2**64 - 1, Decimal(2**64 - 1)),
    "`float`": same("float", 0.5),
    "`double`": same("double", 0.1),
    "`string`": same("string", "Zoë 🚂"),
    "`bytes`": Case("bytes", "AP8=", b"\x00\xff"),
    "`enum`": same("Suit", "HEARTS"),
    "`message`": same("Item", ITEM),
    "a message without fields": Case("Empty", {}, True),
    "a message that contains itself": Case(
        "Node", {"v": 1, "next": {"v": 2}}, {"v": 1, "next": {"v": 2}}
    ),
    "`repeated`": same("repeated int32", [1, 2, 3]),
    "`map`": same("map<string, int64>", {"a": 1, "b": 2**40}),
    "`optional`": same("optional int32", 0),
    "`oneof`": same("string", "chosen"),
    "`google.protobuf.Timestamp`": Case(
        "google.protobuf.Timestamp", "2026-02-03T04:05:06.789Z", MOMENT
    ),
    "`google.protobuf.Duration`": Case("google.protobuf.Duration", "1.5s", 1_500_000),
    "`google.protobuf.Int64Value` and the other wrappers": same("google.protobuf.Int64Value", 5),
    "`google.protobuf.Struct`, `Value`, `ListValue`, `Any`": same(
        "google.protobuf.Struct", {"a": [1.5, "x", None]}
    ),
    "`google.type.Date`": Case(
        "google.type.Date", {"year": 2026, "month": 2, "day": 3}, date(2026, 2, 3)
    ),
}


def protobuf_source() -> str:
    fields = []
    for number, (row, case) in enumerate(PROTOBUF.items()):
        field = f"{case.schema} f{number} = {number + 1};"
        fields.append(f"oneof choice {{ {field} }}" if row == "`oneof`" else field)
    return f"""
        syntax = "proto3";
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/duration.proto";
        import "google/protobuf/wrappers.proto";
        import "google/protobuf/struct.proto";
        import "google/type/date.proto";
        message Everything {{ {" ".join(fields)} }}
        enum Suit {{ NONE = 0; HEARTS = 1; }}
        message Item {{ string sku = 1; int32 count = 2; }}
        message Empty {{}}
        message Node {{ int32 v = 1; Node next = 2; }}
    """


def protobuf_message(kind: type[Any]) -> Any:
    sent = {f"f{n}": case.sent for n, case in enumerate(PROTOBUF.values())}
    return json_format.ParseDict(sent, kind())


_THING = {
    "type": "object",
    "properties": {"sku": {"type": "string"}, "count": {"type": "integer"}},
}
JSON = {
    "`boolean`": same({"type": "boolean"}, True),
    "`integer`": same({"type": "integer"}, 2**63 - 1),
    "`number`": same({"type": "number"}, 0.1),
    "`string`": same({"type": "string"}, "Zoë 🚂"),
    "`string`, format `date`": Case(
        {"type": "string", "format": "date"}, "2024-02-29", date(2024, 2, 29)
    ),
    "`string`, format `date-time`": Case(
        {"type": "string", "format": "date-time"}, "2026-02-03T05:05:06.789+01:00", MOMENT
    ),
    "`string`, contentEncoding `base64`": Case(
        {"type": "string", "contentEncoding": "base64"}, "AP8=", b"\x00\xff"
    ),
    "`enum` of strings": same({"enum": ["A", "B"]}, "B"),
    "`array`": same({"type": "array", "items": {"type": "integer"}}, [1, 2, 3]),
    "`object` with properties": same(_THING, ITEM),
    "`object` with only `additionalProperties`": same(
        {"type": "object", "additionalProperties": {"type": "integer"}}, {"a": 1, "b": 2**40}
    ),
    "`object` with properties and `additionalProperties`": Case(
        _THING | {"additionalProperties": {"type": "integer"}},
        ITEM | {"a": 1, "b": 2**40},
        ITEM | {"additional_x002A_": {"a": 1, "b": 2**40}},
    ),
    '`["string", "null"]`': same({"type": ["string", "null"]}, "x"),
    "`oneOf` with null": same({"oneOf": [{"type": "null"}, {"type": "integer"}]}, 5),
    "`oneOf` integer and number": same({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1.5),
    "`oneOf` objects": Case(
        {
            "oneOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
            ]
        },
        {"b": "x"},
        {"a": None, "b": "x"},
    ),
    "`oneOf` string and integer": Case(
        {"oneOf": [{"type": "string"}, {"type": "integer"}]}, "x", '"x"'
    ),
    "`$ref`": same({"$ref": "#/$defs/thing"}, ITEM),
    "`connect.type` int32": same({"type": "integer", "connect.type": "int32"}, 7),
    "Kafka Connect's Timestamp": Case(
        {
            "type": "integer",
            "title": "org.apache.kafka.connect.data.Timestamp",
            "connect.type": "int64",
        },
        int(MOMENT.timestamp() * 1000),
        MOMENT,
    ),
    "anything else": Case({}, [1, {"a": "x"}], '[1,{"a":"x"}]'),
}


def json_schema() -> dict[str, Any]:
    fields = {f"f{n}": case.schema for n, case in enumerate(JSON.values())}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Everything",
        "type": "object",
        "properties": fields,
        "$defs": {"thing": _THING},
    }


def parsed(value: Any) -> Any:
    """JSON text that stands for a nested value, as that value."""
    if isinstance(value, dict):
        return {key: parsed(inner) for key, inner in value.items()}
    if isinstance(value, str) and value[:1] in "{[":
        return json.loads(value)
    return value
