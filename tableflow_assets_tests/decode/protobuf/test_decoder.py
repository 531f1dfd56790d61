"""Decoding Protobuf: google.protobuf writes the records, and says what is in them."""

from __future__ import annotations

import base64
import json
import pickle
import random
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import json_format, message_factory

from tableflow_assets.decode.protobuf.decoder import ProtobufDecoder
from tableflow_assets.decode.protobuf.schema import ProtobufSchemas
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.decode.protobuf.version import pool_of

COMMON = "".join(
    f'import "google/{name}.proto";'
    for name in (
        *(f"protobuf/{n}" for n in ("any", "duration", "empty", "struct", "timestamp", "wrappers")),
        *(f"type/{n}" for n in ("date", "money", "timeofday")),
    )
)
Fill = Callable[[Any], None]


def proto3(body: str) -> str:
    return f'syntax = "proto3"; package t; {COMMON} {body}'


def writer(text: str, name: str = "t.M", references: Mapping[str, str] | None = None) -> Any:
    pool = pool_of(descriptors(text, references or {}))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def framed(message: Any, schema_id: int = 1, indexes: bytes = b"\0") -> bytes:
    content = message if isinstance(message, bytes) else message.SerializeToString()
    return struct.pack(">bi", 0, schema_id) + indexes + content


def decoder(*texts: str, message: str | None = None) -> ProtobufDecoder:
    versions: list[tuple[int, str, dict[str, str]]] = [
        (number, text, {}) for number, text in enumerate(texts, 1)
    ]
    schemas = ProtobufSchemas("s", versions, message)
    return ProtobufDecoder(schemas.shape, schemas.versions)


def decode(
    with_: ProtobufDecoder, records: Sequence[bytes | None]
) -> tuple[list[dict[str, Any] | None], list[str | None]]:
    rows, problems = with_.decode(pa.array(records, pa.binary()))
    rows.validate(full=True)
    assert rows.type == with_.arrow_type
    assert len(rows) == len(problems) == len(records)
    return rows.to_pylist(), problems.to_pylist()


def row_of(body: str, *fills: Fill) -> dict[str, Any]:
    text = proto3(body)
    message = writer(text)()
    for fill in fills:
        fill(message)
    rows, problems = decode(decoder(text), [framed(message)])
    assert problems == [None]
    assert rows[0] is not None
    return rows[0]


def setting(**values: Any) -> Fill:
    def fill(message: Any) -> None:
        for name, value in values.items():
            setattr(message, name, value)

    return fill


def from_json(**values: Any) -> Fill:
    def fill(message: Any) -> None:
        json_format.ParseDict(values, message)

    return fill


SCALARS: list[tuple[str, Any, Any, Any]] = [
    # declared, written, in the row, in the row where nothing was written
    ("double", 1.5, 1.5, 0.0),
    ("float", 0.5, 0.5, 0.0),
    *((kind, -(2**31), -(2**31), 0) for kind in ("int32", "sint32", "sfixed32")),
    *((kind, -(2**63), -(2**63), 0) for kind in ("int64", "sint64", "sfixed64")),
    *((kind, 2**32 - 1, 2**32 - 1, 0) for kind in ("uint32", "fixed32")),
    *((kind, 2**64 - 1, Decimal(2**64 - 1), Decimal(0)) for kind in ("uint64", "fixed64")),
    ("bool", True, True, False),
    ("string", "Grüße 👋", "Grüße 👋", ""),
    ("bytes", b"\xff\0", b"\xff\0", b""),
    ("Suit", 1, "SPADES", "HEARTS"),
    ("Suit", 77, "77", "HEARTS"),
]
SUIT = "enum Suit { HEARTS = 0; SPADES = 1; }"


@pytest.mark.parametrize(("type_name", "value", "column", "absent"), SCALARS)
def test_a_scalar_is_in_the_row_as_it_was_written(
    type_name: str, value: Any, column: Any, absent: Any
) -> None:
    fields = f"{type_name} x = 1; optional {type_name} y = 2; repeated {type_name} z = 3;"
    fields += f"oneof o {{ {type_name} v = 4; int32 other = 5; }} map<string, {type_name}> w = 6;"
    body = f"message M {{ {fields} }} {SUIT}"
    row = row_of(
        body,
        setting(x=value, y=value, v=value),
        lambda m: m.z.extend([value, value]),
        lambda m: m.w.update({"k": value}),
    )
    assert row == {
        **dict.fromkeys("xyv", column),
        "z": [column, column],
        "other": None,
        "w": [("k", column)],
    }
    empty = row_of(body)
    assert empty == {"x": absent, "y": None, "z": [], "v": None, "other": None, "w": []}
    # Present with its default value, which only presence tells from being absent.
    present = row_of(body, lambda m: setattr(m, "y", m.y), lambda m: setattr(m, "v", m.v))
    assert (present["y"], present["v"]) == (absent, absent)


@pytest.mark.parametrize(
    ("type_name", "value", "column"),
    [
        (
            "google.protobuf.Timestamp",
            "2024-02-29T12:30:00.123456789Z",
            datetime(2024, 2, 29, 12, 30, 0, 123456, UTC),
        ),
        (
            "google.protobuf.Timestamp",
            "1969-12-31T23:59:59.000001Z",
            datetime(1969, 12, 31, 23, 59, 59, 1, UTC),
        ),
        ("google.protobuf.Timestamp", "0001-01-01T00:00:00Z", datetime(1, 1, 1, tzinfo=UTC)),
        ("google.protobuf.Duration", "1.500000001s", 1_500_000),
        ("google.protobuf.Duration", "-1.5s", -1_500_000),
        ("google.protobuf.Int32Value", 0, 0),
        ("google.protobuf.Int64Value", -5, -5),
        ("google.protobuf.UInt32Value", 2**32 - 1, 2**32 - 1),
        ("google.protobuf.UInt64Value", 2**64 - 1, Decimal(2**64 - 1)),
        ("google.protobuf.DoubleValue", 0.25, 0.25),
        ("google.protobuf.FloatValue", 0.25, 0.25),
        ("google.protobuf.BoolValue", False, False),
        ("google.protobuf.StringValue", "", ""),
        ("google.protobuf.BytesValue", "/w==", b"\xff"),
        ("google.protobuf.Empty", {}, True),
        ("google.type.Date", {"year": 2024, "month": 2, "day": 29}, date(2024, 2, 29)),
        ("google.type.Date", {"year": 1, "month": 1, "day": 1}, date(1, 1, 1)),
        ("google.type.Date", {"year": 9999, "month": 12, "day": 31}, date(9999, 12, 31)),
        ("google.type.Date", {"year": 1969, "month": 12, "day": 31}, date(1969, 12, 31)),
        ("google.type.Date", {"year": 2023, "month": 2, "day": 29}, None),
        ("google.type.Date", {"year": 2023, "month": 2}, None),
        ("google.type.Date", {"month": 12, "day": 24}, None),
        ("google.type.Date", {"year": 2147483647, "month": 13, "day": -1}, None),
        ("google.type.Date", {}, None),
        (
            "google.type.Money",
            {"currencyCode": "EUR", "units": "3"},
            {"currency_code": "EUR", "units": 3, "nanos": 0},
        ),
        (
            "google.type.TimeOfDay",
            {"hours": 23},
            {"hours": 23, "minutes": 0, "seconds": 0, "nanos": 0},
        ),
        ("In", {"n": 3}, {"n": 3, "deep": None}),
        ("In", {"deep": {}}, {"n": 0, "deep": True}),
    ],
)
def test_a_message_is_in_the_row_and_null_where_it_is_absent(
    type_name: str, value: Any, column: Any
) -> None:
    body = f"""message M {{ {type_name} x = 1; repeated {type_name} z = 2; map<int32, {type_name}> w = 3;
      oneof o {{ {type_name} v = 4; }} }}
      message In {{ int32 n = 1; Nothing deep = 2; }} message Nothing {{}}"""
    row = row_of(body, from_json(x=value, z=[value, value], w={"7": value}))
    assert row == {"x": column, "z": [column, column], "w": [(7, column)], "v": None}
    assert row_of(body) == {"x": None, "z": [], "w": [], "v": None}
    assert row_of(body, from_json(v=value))["v"] == column


def test_a_timestamp_outside_protobufs_range_is_a_problem() -> None:
    text = proto3(
        "message M { google.protobuf.Timestamp t = 1; repeated google.protobuf.Timestamp r = 2; }"
    )
    kind = writer(text)
    records = []
    for seconds in (253_402_300_799, 253_402_300_800, -62_135_596_801, 2**62, -(2**63)):
        message = kind()
        message.t.seconds = seconds
        message.r.add().seconds = seconds
        records.append(framed(message))
    rows, problems = decode(decoder(text), records)
    assert problems == [None, *["number_out_of_range"] * 4]
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert rows == [{"t": last, "r": [last]}, *[None] * 4]


def test_proto2_fields_are_null_where_absent_and_defaults_are_not_applied() -> None:
    text = """syntax = "proto2"; package t; enum E { ONE = 1; TWO = 2; }
    message M { optional int32 a = 1 [default = 7]; optional E e = 2; required string s = 3;
      repeated E r = 4 [packed = true]; }"""
    message = writer(text)(s="x")
    rows, _ = decode(decoder(text), [framed(message)])
    assert rows == [{"a": None, "e": None, "s": "x", "r": []}]
    message.a, message.e = 0, 2
    message.r.extend([1, 2])
    rows, _ = decode(decoder(text), [framed(message)])
    assert rows == [{"a": 0, "e": "TWO", "s": "x", "r": ["ONE", "TWO"]}]


def test_editions_come_compiled_and_keep_their_presence() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="m.proto", package="t", syntax="editions", edition=1000)
    message = file.message_type.add(name="M")
    for number, name in enumerate("ab", 1):
        field = message.field.add(name=name, number=number, type=5, label=1)
    field.options.features.field_presence = 2
    text = base64.b64encode(file.SerializeToString()).decode()
    rows, _ = decode(decoder(text), [framed(b"")])
    assert rows == [{"a": None, "b": 0}]


def test_the_first_of_several_names_of_an_enums_number_is_taken() -> None:
    enum = "enum E { option allow_alias = true; A = 0; B = 1; ALSO_B = 1; }"
    assert row_of(f"message M {{ E e = 1; }} {enum}", setting(e=1)) == {"e": "B"}


def test_enums_may_share_the_names_of_their_values() -> None:
    body = "message M { A.E a = 1; B.E b = 2; } message A { enum E { X = 0; Y = 1; } }"
    body += "message B { enum E { Y = 0; X = 1; } }"
    assert row_of(body, setting(a=1, b=1)) == {"a": "Y", "b": "X"}


def test_maps_of_messages_and_lists_in_lists() -> None:
    body = """message M { map<string, In> m = 1; repeated Row rows = 2; }
      message In { repeated uint64 n = 1; map<uint32, In2> deep = 2; } message In2 { optional string s = 1; }
      message Row { repeated In cells = 1; }"""
    cell = {"n": ["1", "2"], "deep": {"5": {"s": ""}, "6": {}}}
    row = row_of(body, from_json(m={"a": cell}, rows=[{}, {"cells": [cell, {}]}]))
    column = {"n": [Decimal(1), Decimal(2)], "deep": [(5, {"s": ""}), (6, {"s": None})]}
    row["m"][0][1]["deep"].sort()
    row["rows"][1]["cells"][0]["deep"].sort()
    assert row == {
        "m": [("a", column)],
        "rows": [{"cells": []}, {"cells": [column, {"n": [], "deep": []}]}],
    }


def test_of_a_key_that_a_map_has_twice_the_last_value_is_taken() -> None:
    text = proto3("message M { map<string, uint64> m = 1; int32 x = 2; }")
    kind = writer(text)
    a, b, c = (
        kind(m={key: value}).SerializeToString() for key, value in (("k", 1), ("l", 2), ("k", 3))
    )
    records = [a + b + c, a, b"", c + a + b]
    rows, _ = decode(decoder(text), [framed(r) for r in records])
    for row, record in zip(rows, records, strict=True):
        assert row is not None
        assert dict(row["m"]) == dict(kind.FromString(record).m)
        assert len(row["m"]) == len(dict(row["m"]))


JSON_VALUES: list[tuple[str, Any]] = [
    ("google.protobuf.Struct", {"a": [1.5, None, {"b": "ü"}], "c": True}),
    ("google.protobuf.Struct", {}),
    ("google.protobuf.Value", "text"),
    ("google.protobuf.Value", None),
    ("google.protobuf.ListValue", [1.0, [], {}]),
    ("Node", {"name": "a", "kids": [{"name": "b"}, {"by": {"x": {"big": "9007199254740993"}}}]}),
    ("google.protobuf.Any", {"@type": "type.googleapis.com/t.In", "n": 3}),
    (
        "google.protobuf.Any",
        {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "3s"},
    ),
    ("google.protobuf.Any", {}),
    ("Node", {"any": {"@type": "x/t.Node", "any": {"@type": "x/t.In", "n": 1}}}),
]
JSON_TYPES = """message In { int32 n = 1; } message Node { string name = 1; repeated Node kids = 2;
  map<string, Node> by = 3; int64 big = 4; google.protobuf.Any any = 5; }"""


@pytest.mark.parametrize(("type_name", "value"), JSON_VALUES)
def test_values_without_fixed_fields_are_json_text(type_name: str, value: Any) -> None:
    text = proto3(
        f"message M {{ {type_name} x = 1; repeated {type_name} z = 2; map<string, {type_name}> w = 3; }}"
        + JSON_TYPES
    )
    pool = pool_of(descriptors(text, {}))
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("t.M"))()
    json_format.ParseDict(
        {"x": value, "z": [value], "w": {"k": value}}, message, descriptor_pool=pool
    )
    rows, problems = decode(decoder(text), [framed(message), framed(b"")])
    assert problems == [None, None]
    assert rows[0] is not None
    assert [json.loads(t) for t in (rows[0]["x"], rows[0]["z"][0], rows[0]["w"][0][1])] == [
        value
    ] * 3
    assert rows[1] == {"x": None, "z": [], "w": []}


def test_an_any_of_an_unknown_type_keeps_its_bytes() -> None:
    text = proto3(f"message M {{ google.protobuf.Any a = 1; Node n = 2; }} {JSON_TYPES}")
    message = writer(text)()
    for any_ in (message.a, message.n.kids.add().any):
        any_.type_url, any_.value = "type.googleapis.com/who.Knows", b"\x08\x01"
    rows, _ = decode(decoder(text), [framed(message)])
    any_text = {"@type": "type.googleapis.com/who.Knows", "value": "CAE="}
    assert rows[0] is not None
    assert json.loads(rows[0]["a"]) == any_text
    assert json.loads(rows[0]["n"]) == {"kids": [{"any": any_text}]}


@pytest.mark.parametrize("type_name", ["Node", "google.protobuf.Struct"])
def test_parts_of_a_message_that_becomes_json_text_are_merged(type_name: str) -> None:
    text = proto3(f"message M {{ {type_name} x = 1; }} {JSON_TYPES}")
    kind = writer(text)
    parts = {"Node": ({"name": "a"}, {"kids": [{"name": "b"}]})}.get(
        type_name, ({"k": 1}, {"l": [2]})
    )
    both = b"".join(
        json_format.ParseDict({"x": part}, kind()).SerializeToString() for part in parts
    )
    rows, problems = decode(decoder(text), [framed(both), framed(b"")])
    expected = json_format.MessageToDict(kind.FromString(both))["x"]
    assert len(expected) == 2
    assert (json.loads(rows[0]["x"]), rows[1], problems) == (expected, {"x": None}, [None] * 2)  # type: ignore[index]


def test_a_duration_outside_protobufs_range_is_a_problem() -> None:
    text = proto3("message M { google.protobuf.Duration x = 1; }")
    messages = []
    for seconds in (-315_576_000_000, 315_576_000_000, 315_576_000_001, -(2**63), 2**63 - 1):
        message = writer(text)()
        message.x.seconds = seconds
        messages.append(framed(message))
    rows, problems = decode(decoder(text), messages)
    assert problems == [None, None, *["number_out_of_range"] * 3]
    assert [row and row["x"] for row in rows[:2]] == [-315_576 * 10**12, 315_576 * 10**12]


def test_a_recursive_message_itself_can_be_the_row() -> None:
    text = proto3("message M { string name = 1; M next = 2; }")
    message = writer(text)(name="a")
    message.next.name = "b"
    assert decode(decoder(text), [framed(message)])[0] == [{"name": "a", "next": '{"name":"b"}'}]


def test_a_value_that_json_cannot_express_costs_only_its_own_record() -> None:
    text = proto3("message M { repeated google.protobuf.Value v = 1; int32 n = 2; }")
    records = []
    for number in (1.0, float("nan"), 2.0):
        message = writer(text)(n=7)
        message.v.add().number_value = 0.5
        message.v.add().number_value = number
        records.append(framed(message))
    records.append(framed(b"\x0a\x02\x1a\x05"))  # cut off inside of the value
    rows, problems = decode(decoder(text), records)
    assert problems == [None, "malformed_protobuf", None, "malformed_protobuf"]
    assert rows[2] == {"v": ["0.5", "2.0"], "n": 7}
    assert rows[1] is rows[3] is None


NESTED = proto3(
    "message A { int32 a = 1; message B { int32 b = 1; message C { int32 c = 1; } } }"
    "message D { int32 d = 1; }"
)


@pytest.mark.parametrize(
    ("message", "column", "good"),
    [
        ("A", "a", [b"\0", b"\x02\0", b"\x80\0", b"\x82\0\0", b"\x02\x80\0"]),
        ("B", "b", [b"\x04\0\0", b"\x04\x80\0\0"]),
        ("C", "c", [b"\x06\0\0\0"]),
        ("t.D", "d", [b"\x02\x02"]),
    ],
)
def test_message_indexes_must_point_to_the_message(
    message: str, column: str, good: list[bytes]
) -> None:
    every = [b"\0", b"\x02\0", b"\x04\0\0", b"\x06\0\0\0", b"\x02\x02"]
    bad = [
        *(i for i in every if i not in good),
        *(b"\x02\x04", b"\x02\x01", b"\x01\0", b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        *(b"\xff" * 20, b"\xfe\xff\xff\xff\x0f" + b"\0" * 200, b"\x02\x80"),
    ]
    records = [framed(b"\x08\x05", indexes=indexes) for indexes in (*good, *bad, *good)]
    rows, problems = decode(decoder(NESTED, message=message), records)
    row = {column: 5}
    assert rows == [*[row] * len(good), *[None] * len(bad), *[row] * len(good)]
    assert problems == [
        *[None] * len(good),
        *["wrong_message_index"] * len(bad),
        *[None] * len(good),
    ]


VERSIONS = [
    proto3("message M { int32 n = 1; string gone = 2; In in = 3; } message In { int32 x = 1; }"),
    proto3(
        "message Other {} message M { int32 n = 1; In in = 3; string added = 4; repeated uint32 r = 5; }"
        "message In { int32 x = 1; optional int32 y = 2; }"
    ),
    proto3(
        "message M { In in = 1; int64 n = 3; repeated uint64 r = 7; string added = 2; }"
        "message In { int64 y = 1; int32 x = 2; }"
    ),
]


def test_versions_interleave_in_one_batch() -> None:
    first_writer, second_writer, third_writer = (writer(text) for text in VERSIONS)
    first = framed(first_writer(n=1, gone="g", **{"in": {"x": 11}}), 1)
    second = framed(second_writer(n=2, added="a", r=[5], **{"in": {"x": 12}}), 2, b"\x02\x02")
    third = framed(third_writer(n=2**40, added="b", r=[2**64 - 1], **{"in": {"y": 13}}), 3)
    with_ = decoder(*VERSIONS)
    assert with_.arrow_type == pa.struct(
        {
            "in": pa.struct({"y": pa.int64(), "x": pa.int32()}),
            "n": pa.int64(),
            "r": pa.list_(pa.field("element", pa.decimal128(20, 0))),
            "added": pa.string(),
            "gone": pa.string(),
        }
    )
    expected = [
        {"in": {"y": None, "x": 11}, "n": 1, "r": None, "added": None, "gone": "g"},
        {"in": {"y": None, "x": 12}, "n": 2, "r": [Decimal(5)], "added": "a", "gone": None},
        {
            "in": {"y": 13, "x": 0},
            "n": 2**40,
            "r": [Decimal(2**64 - 1)],
            "added": "b",
            "gone": None,
        },
    ]
    order = random.Random(1).choices(range(3), k=500)  # noqa: S311
    rows, problems = decode(with_, [(first, second, third)[i] for i in order])
    assert rows == [expected[i] for i in order]
    assert set(problems) == {None}


def test_values_are_in_their_own_columns_in_whatever_order_the_schema_has_them() -> None:
    inner = "message In { int32 c = 3; int32 a = 1; int32 b = 2; }"
    text = proto3(
        f"message M {{ int32 y = 2; repeated In l = 9; In in = 5; int32 x = 1; }} {inner}"
    )
    numbers = {"c": 30, "a": 10, "b": 20}
    message = writer(text)(x=1, y=2, l=[numbers], **{"in": numbers})
    rows, _ = decode(decoder(text), [framed(message)])
    assert rows == [{"y": 2, "l": [numbers], "in": numbers, "x": 1}]


def test_records_of_a_version_without_the_message_have_the_wrong_index() -> None:
    old = proto3("message Other { int32 n = 1; }")
    new = proto3("message M { int32 n = 1; }")
    rows, problems = decode(decoder(old, new), [framed(b"", 1), framed(b"", 2)])
    assert (rows, problems) == ([None, {"n": 0}], ["wrong_message_index", None])


FLAT = proto3(
    "message M { int32 n = 1; string s = 2; In in = 3; repeated int32 r = 4; }"
    "message In { int32 x = 1; string s = 2; }"
)
BIGGEST = b"\xff" * 9 + b"\x01"
BAD: dict[bytes, str] = {
    b"": "not_confluent_framed",
    b"\0\0\0\1": "not_confluent_framed",
    b"\1\0\0\0\1\0": "not_confluent_framed",
    b'{"json": true}': "not_confluent_framed",
    framed(b"", 9): "unknown_schema_id",
    framed(b"", -1): "unknown_schema_id",
    framed(b"", indexes=b""): "wrong_message_index",
    framed(b"\x08"): "malformed_protobuf",
    framed(b"\x08" + b"\xff" * 10 + b"\x01"): "malformed_protobuf",
    framed(b"\x12\x05ab"): "malformed_protobuf",
    framed(b"\x12" + BIGGEST + b"ab"): "malformed_protobuf",
    framed(b"\x1a" + BIGGEST + b"ab"): "malformed_protobuf",
    framed(b"\x12\xff\xff\xff\xff\x07ab"): "malformed_protobuf",
    framed(b"\x22\xff\xff\xff\xff\xff\xff\xff\x7f"): "malformed_protobuf",
    framed(b"\x1a\x02\x12\x09"): "malformed_protobuf",
    framed(b"\x00\x01"): "malformed_protobuf",
    framed(b"\x0f"): "malformed_protobuf",
    framed(b"\x0c"): "malformed_protobuf",
    framed(b"\x9b\x06" * 1000): "malformed_protobuf",
    framed(b"\x12\x01\xff"): "invalid_utf8",
    framed(b"\x1a\x03\x12\x01\xff"): "invalid_utf8",
}
GOOD = framed(b"\x08\x07")
GOOD_ROW = {"n": 7, "s": "", "in": None, "r": []}


@pytest.mark.parametrize(("record", "problem"), BAD.items())
def test_a_bad_record_costs_only_itself(record: bytes, problem: str) -> None:
    rows, problems = decode(decoder(FLAT), [GOOD, record, None, GOOD])
    assert rows == [GOOD_ROW, None, None, GOOD_ROW]
    assert problems == [None, problem, None, None]


def test_all_bad_records_together_with_neighbours() -> None:
    records = [each for record in BAD for each in (GOOD, record)]
    rows, problems = decode(decoder(FLAT), records)
    assert rows == [GOOD_ROW, None] * len(BAD)
    assert problems == [each for problem in BAD.values() for each in (None, problem)]


@pytest.mark.parametrize("records", [[], [None], [None, None], [b""], list(BAD)])
def test_a_batch_without_a_good_record(records: list[bytes | None]) -> None:
    rows, _ = decode(decoder(FLAT), records)
    assert rows == [None] * len(records)


def test_a_field_of_another_wire_type_is_skipped_as_an_unknown_one() -> None:
    content = b"\x0d\1\2\3\4" + b"\x10\x05" + b"\x1d\1\2\3\4" + b"\xa3\x06\x08\x01\xa4\x06"
    rows, problems = decode(decoder(FLAT), [framed(content)])
    judge = writer(FLAT).FromString(content)
    assert (judge.n, judge.s, judge.HasField("in")) == (0, "", False)
    assert (rows, problems) == ([GOOD_ROW | {"n": 0}], [None])


def test_one_in_ten_malformed_records_are_found_within_seconds() -> None:
    bad = [framed(b"\x12\x05ab"), framed(b"\x12\x01\xff")]
    records = [bad[i // 10 % 2] if i % 10 == 3 else GOOD for i in range(10_000)]
    started = time.process_time()
    rows, problems = decode(decoder(FLAT), records)
    assert time.process_time() - started < 5
    for i, (row, problem) in enumerate(zip(rows, problems, strict=True)):
        expected = ("malformed_protobuf", "invalid_utf8")[i // 10 % 2] if i % 10 == 3 else None
        assert problem == expected
        assert row == (None if expected else GOOD_ROW)


def test_a_large_record_is_decoded() -> None:
    text = "x" * 10_000_000
    rows, problems = decode(decoder(FLAT), [GOOD, framed(writer(FLAT)(s=text)), GOOD])
    assert problems == [None] * 3
    assert rows[1] == GOOD_ROW | {"n": 0, "s": text}


@pytest.mark.parametrize(("levels", "problem"), [(60, None), (3000, "malformed_protobuf")])
def test_deep_nesting_is_decoded_or_refused(levels: int, problem: str | None) -> None:
    text = proto3("message M { M m = 1; google.protobuf.Value v = 2; int32 n = 3; }")
    content = b""
    for _ in range(levels):
        length = len(content)
        encoded = bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
        content = b"\x0a" + encoded + content
    rows, problems = decode(decoder(text), [framed(b""), framed(content), framed(b"")])
    assert problems == [None, problem, None]
    if problem is None:
        assert rows[1] is not None
        assert rows[1]["m"].count("{") == levels


def test_random_bytes_never_break_out() -> None:
    chance = random.Random(7)  # noqa: S311
    body = (
        "message M { int32 n = 1; In in = 2; repeated In l = 3; map<string, In> m = 4; bytes b = 5;"
    )
    body += (
        "google.protobuf.Timestamp t = 6; google.protobuf.Struct s = 7; google.type.Date d = 8; }"
    )
    text = proto3(body + "message In { sint64 x = 1; repeated double y = 2; string s = 3; }")
    records = []
    for _ in range(3000):
        pieces = [chance.randbytes(chance.randrange(4)) for _ in range(chance.randrange(6))]
        tags = [bytes((chance.randrange(1, 9) << 3 | 2, len(p))) + p for p in pieces]
        records.append(framed(b"".join(tags)))
    rows, problems = decode(decoder(text), records)
    assert [row is None for row in rows] == [problem is not None for problem in problems]
    alone = [decode(decoder_, [record]) for decoder_ in [decoder(text)] for record in records[:300]]
    assert [(r[0], p[0]) for r, p in alone] == list(zip(rows[:300], problems[:300], strict=True))


def test_it_survives_pickling_before_and_after_its_first_use() -> None:
    text = proto3(f"message M {{ int32 n = 1; Node x = 2; }} {JSON_TYPES}")
    with_ = decoder(text)
    for _ in range(2):
        with_ = pickle.loads(pickle.dumps(with_))  # noqa: S301
        assert decode(with_, [framed(b"\x08\x05")])[0] == [{"n": 5, "x": None}]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_chunks_and_slices_are_decoded_in_order(kind: pa.DataType) -> None:
    with_ = decoder(FLAT)
    records = [framed(b"\x08" + bytes((n,))) for n in range(6)]
    whole = pa.array([b"?", *records, None], kind)
    for array in (whole.slice(1, 6), pa.chunked_array([whole.slice(1, 2), whole.slice(3, 4)])):
        rows, problems = with_.decode(array)
        assert [row["n"] for row in rows.to_pylist()] == list(range(6))
        assert problems.null_count == 6
    rows, problems = with_.decode(pa.chunked_array([], pa.binary()))
    assert (len(rows), len(problems)) == (0, 0)


def test_the_arrow_type_has_nothing_that_spark_does_not_know() -> None:
    fields = (
        "uint32 a = 1; fixed64 b = 2; google.protobuf.Duration c = 3; map<uint64, uint32> d = 4;"
    )
    fields += "E e = 5; google.protobuf.Timestamp f = 6; repeated uint32 g = 7;"
    text = proto3(f"message M {{ {fields} }} enum E {{ X = 0; }}")
    assert decoder(text).arrow_type == pa.struct(
        {
            "a": pa.int64(),
            "b": pa.decimal128(20, 0),
            "c": pa.int64(),
            "d": pa.map_(pa.decimal128(20, 0), pa.int64()),
            "e": pa.string(),
            "f": pa.timestamp("us", "UTC"),
            "g": pa.list_(pa.field("element", pa.int64())),
        }
    )
