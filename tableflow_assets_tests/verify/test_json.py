"""The judge's JSON: which values fit which columns, what equals what, and what Spark makes of a key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN
from tableflow_assets.verify.columns import JsonText, is_same
from tableflow_assets.verify.json_schema import JsonWithSchema
from tableflow_assets.verify.plain import Json, Raw, Text
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.spark_json import java_number, json_identity
from tableflow_assets_tests.verify.subjects import framed, subject

LONGS = ListType(1, LongType(), element_required=False)
LONG_BY_NAME = MapType(1, StringType(), 2, LongType(), value_required=False)
DOTTED = StructType(NestedField(1, "a_x002E_b", LongType(), required=False))


def column(schema: Any, value: str, kind: IcebergType, path: tuple[str, ...] = ("a",)) -> Any:
    reader = JsonWithSchema(subject(schema, kind="JSON"))
    return reader.as_column(reader.read(framed(value.encode())), path, kind)


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (BooleanType(), "true", True),
        (IntegerType(), "-2147483648", -(2**31)),
        (LongType(), "9223372036854775807", 2**63 - 1),
        (LongType(), "7.0", 7),
        (DoubleType(), "1", 1.0),
        (DoubleType(), "0.1", 0.1),
        (FloatType(), "0.1", 0.10000000149011612),
        (DateType(), '"1970-01-02"', 1),
        (DateType(), "1", 1),
        (TimestamptzType(), '"1970-01-01T00:00:01Z"', 1_000_000),
        (TimestamptzType(), '"1970-01-01T01:00:00.1234569+01:00"', 123_456),
        (TimestamptzType(), '"1970-01-01T23:59:60Z"', 86_400_000_000),
        (TimestamptzType(), '"9999-12-31T15:59:60.25-08:00"', 253_402_300_800_250_000),
        (TimestamptzType(), '"1970-01-01 00:00:00.5"', 500_000),
        (TimestamptzType(), '"1969-12-31T23:59:59.999999z"', -1),
        (TimestamptzType(), "5", 5000),
        (BinaryType(), '"/w=="', b"\xff"),
        (LONGS, "[1, null]", [1, None]),
        (LONG_BY_NAME, '{"x": 1}', {"x": 1}),
        (DOTTED, '{"a.b": 1, "other": 2}', {"a_x002E_b": 1}),
        (LongType(), "null", None),
    ],
    ids=str,
)
def test_values_that_fit(kind: IcebergType, value: str, expected: Any) -> None:
    assert column(of(a={}), f'{{"a": {value}}}', kind) == expected
    assert column(of(a={}), "{}", kind) is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BooleanType(), "1"),
        (IntegerType(), "2147483648"),
        (LongType(), "9223372036854775808"),
        (LongType(), "1.5"),
        (LongType(), "true"),
        (LongType(), '"1"'),
        (DoubleType(), '"1"'),
        (DoubleType(), "1" + "0" * 400),
        (DateType(), '"1970-13-01"'),
        (TimestamptzType(), '"1970-01-01"'),
        (TimestamptzType(), '"1970-01-01T25:00:00Z"'),
        (BinaryType(), '"/w="'),
        (LONGS, "{}"),
        (LONG_BY_NAME, "[]"),
        (DOTTED, "3"),
        (StringType(), "3"),
    ],
    ids=str,
)
def test_values_that_do_not_fit(kind: IcebergType, value: str) -> None:
    with pytest.raises(Unreadable):
        column(of(a={"type": "string"}), f'{{"a": {value}}}', kind)


@pytest.mark.parametrize(
    ("schema", "value", "fitting", "unfitting"),
    [
        ({"type": "string"}, '"x"', "x", '"x"'),
        ({"type": ["null", "string"]}, '"x"', "x", '"x"'),
        ({"$ref": "#/definitions/Name"}, '"x"', "x", '"x"'),
        ({}, '"x"', '"x"', "y"),
        ({}, '"x"', "x", "'x'"),  # whether it is text or JSON text the judge does not know
        ({}, '{"b": [1.50, null], "a": 1}', '{"a":1.0,"b":[1.5,null]}', '{"a":1,"b":[1.5]}'),
        ({}, "12345678901234567890", "12345678901234567890", "1"),
        ({}, "9007199254740993", "9007199254740993", "9007199254740992"),
        ({}, "0.1", "0.1", "0.10000000000001"),
        ({}, "true", "true", "1"),
    ],
)
def test_text_and_json_text(schema: Any, value: str, fitting: str, unfitting: str) -> None:
    document = of(a=schema) | {"definitions": {"Name": {"type": "string"}}}
    expected = column(document, f'{{"a": {value}}}', StringType())
    assert is_same(expected, fitting)
    assert not is_same(expected, unfitting)
    assert not is_same(expected, None)


def test_a_value_that_is_no_object_is_one_column() -> None:
    assert column({"type": "integer"}, "3", LongType(), ("value",)) == 3
    assert column({"type": "integer"}, "3", LongType(), ()) == 3
    assert column(of(value={"type": "integer"}), '{"value": 3}', LongType(), ("value",)) == 3


@pytest.mark.parametrize(
    "text",
    ["", "{", "{} {}", "NaN", "-Infinity", "{'a': 1}", "{a: 1}", '"\x00"', "1.", "01", "[" * 9**5],
)
def test_what_is_no_json(text: str) -> None:
    readers: tuple[Reader, ...] = (Json(), JsonWithSchema(subject({}, kind="JSON")))
    for reader, data in zip(readers, (text.encode(), framed(text.encode())), strict=True):
        with pytest.raises(Unreadable):
            reader.read(data)
        with pytest.raises(Unreadable):
            reader.identity(data, None)


def test_deep_json_is_compared_without_a_deep_stack() -> None:
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    assert is_same(JsonText(deep), json.dumps(deep))
    assert not is_same(JsonText(deep), json.dumps([deep]))


def test_a_member_that_only_a_later_version_names_may_be_missing() -> None:
    """It had no column when the row was written, or it has: nothing says which."""
    inner = {"properties": {"a": {"type": "integer"}}}
    first = of(inner=of())
    reader = JsonWithSchema(subject(first, of(x={"type": "integer"}, inner=inner), kind="JSON"))
    kind = StructType(
        NestedField(1, "x", LongType()),
        NestedField(2, "inner", StructType(NestedField(3, "a", LongType()))),
    )
    value = b'{"x": 5, "inner": {"a": 6}}'
    old, new = (reader.as_row(reader.read(framed(value, n)), (), kind) for n in (1, 2))
    whole = {"x": 5, "inner": {"a": 6}}
    assert is_same(old, whole)
    assert is_same(new, whole)
    for partly in ({"x": None, "inner": {"a": 6}}, {"x": 5, "inner": {"a": None}}):
        assert is_same(old, partly)
        assert not is_same(new, partly)
    assert not is_same(old, {"x": 4, "inner": {"a": 6}})


def test_members_without_a_column_are_in_the_map_that_some_rows_lack() -> None:
    first = of(a=True) | {"additionalProperties": {"type": "integer"}}
    then = of(a=True, late={"type": "integer"}) | {"additionalProperties": {"type": "integer"}}
    reader = JsonWithSchema(subject(first, then, kind="JSON"))
    others = NestedField(1, ADDITIONAL_COLUMN, LONG_BY_NAME)
    kind = StructType(others, NestedField(3, "late", LongType()))
    row = reader.as_row(reader.read(framed(b'{"x": 1, "late": 2, "y": null}')), (), kind)

    def fits(members: Any, late: Any) -> bool:
        return is_same(row, {ADDITIONAL_COLUMN: members, "late": late})

    assert fits({"x": 1, "y": None}, 2)
    assert fits({"x": 1, "y": None, "late": 2}, None)
    assert fits(None, None)
    for wrong in ({}, {"x": 1}, {"x": 2, "y": None}, {"x": 1, "y": None, "z": 3}):
        assert not fits(wrong, 2)


def test_plain_values() -> None:
    for reader, data, expected in (
        (Raw(), b"\xff", b"\xff"),
        (Text(), b"x", "x"),
        (Json(), b'{"a" : 1}', '{"a" : 1}'),
    ):
        for path in ((), ("value",)):
            assert reader.as_column(reader.read(data), path, StringType()) == expected
        assert reader.schema_id(data) is None
    assert Raw().identity(b"\xff", None) == b"\xff"
    for plain in (Text(), Json()):
        with pytest.raises(Unreadable):
            plain.identity(b"\xff", None)


@pytest.mark.parametrize(
    ("key", "identity"),
    [
        ('{"b": 1.0, "a": [ "x", -0.0, 1.50 ]}', '{"a":["x",0,1.5],"b":1}'),
        (r'"\u0001\n\"\\\/é\ud83d"', '"\\u0001\\n\\"\\\\/é?"'),
        ('"\\u001f"', '"\\u001F"'),
        ('{"\\uffff": 1, "😀": 2}', '{"😀":2,"\uffff":1}'),  # as UTF-16 sorts
        ("1e5", "1e5"),
        ('[ {"a": 1, "a": 2}]', '[ {"a": 1, "a": 2}]'),
        ("[ " + "1" * 38 + "]", "[" + "1" * 38 + "]"),
        ("[ " + "1" * 39 + "]", "[ " + "1" * 39 + "]"),
        ('[ "1e5", null, true]', '["1e5",null,true]'),
    ],
)
def test_equal_keys_are_the_same_bytes(key: str, identity: str) -> None:
    assert json_identity(key.encode()).decode() == identity


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.25e-10, "1.25E-10"),
        (123.456, "123.456"),
        (float("nan"), '"NaN"'),
    ],
)
def test_numbers_as_java_writes_them(number: float, text: str) -> None:
    assert java_number(number) == text
