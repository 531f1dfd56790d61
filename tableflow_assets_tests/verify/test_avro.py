"""The judge's Avro: fastavro writes the values, and says what is in them."""

from __future__ import annotations

import io
import json
import random
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from fastavro.utils import generate_many
from pyiceberg.types import IcebergType, StringType, StructType

from tableflow_assets.decode.avro.schema import AvroSchemas
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.avro import Avro
from tableflow_assets.verify.avro_schema import parsed
from tableflow_assets.verify.avro_wire import Member, Readers, read_all
from tableflow_assets.verify.columns import JsonText, is_same
from tableflow_assets.verify.readers import Unreadable
from tableflow_assets_tests.verify.subjects import avro, framed, logical, record, subject

NODE = record("Node", n="int", next=["null", "Node"])
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
EVERYTHING = record(
    flag="boolean",
    small="int",
    large="long",
    single="float",
    precise="double",
    text="string",
    raw="bytes",
    four={"type": "fixed", "name": "Four", "size": 4},
    colour=COLOUR,
    maybe=["null", "string"],
    several=["null", "long", "string", "Colour", record("Inner", x="int")],
    list={"type": "array", "items": {"type": "map", "values": ["int", "null"]}},
)


def type_of(avro_subject: Subject) -> IcebergType:
    """Of the column that the table has for it."""
    texts = [version.text for version in avro_subject.versions]
    used = [dict(version.references) for version in avro_subject.versions]
    return AvroSchemas(avro_subject.name, texts, used).type(ColumnBuilder(avro_subject.name))


def typed(avro_subject: Subject, data: bytes) -> Any:
    reader = Avro(avro_subject)
    return reader.as_column(reader.read(data), (), type_of(avro_subject))


def test_bytes_are_read_as_fastavro_reads_them() -> None:
    schema = fastavro.parse_schema(EVERYTHING)
    read = Readers().of(parsed(json.dumps(EVERYTHING), {}))

    def bare(value: Any) -> Any:
        if isinstance(value, Member):
            return bare(value.value)
        if isinstance(value, dict):
            return {key: bare(inner) for key, inner in value.items()}
        return [bare(inner) for inner in value] if isinstance(value, list) else value

    for value in generate_many(schema, 200):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, schema, value)
        body.seek(0)
        expected = fastavro.schemaless_reader(body, schema, None)
        assert bare(read_all(body.getvalue(), read)) == expected


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (logical("bytes", "decimal", precision=38, scale=4), Decimal("-9.5"), Decimal("-9.5")),
        (logical("long", "timestamp-millis"), 5, 5000),
        (logical("long", "local-timestamp-micros"), -5, -5),
        (logical("int", "date"), -1, -1),
        (logical("int", "time-millis"), 86_399_999, 86_399_999),
        (logical("long", "time-nanos"), 7, 7),  # unknown: the number
        (logical("string", "uuid"), "no uuid", "no uuid"),
        (logical("fixed", "duration", name="D", size=12), b"123456789012", b"123456789012"),
        (COLOUR, "BLUE", "BLUE"),
        (["null", "int"], None, None),
        (["int", "long"], 2**40, 2**40),
        (["float", "double"], 0.5, 0.5),
        (["int", "string"], "x", {"member_int": None, "member_string": "x"}),
        (["int", "string", "null"], None, None),
        ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
    ],
    ids=str,
)
def test_types(kind: Any, value: Any, expected: Any) -> None:
    """Each as a field, as a list's element, and as the whole value."""
    assert typed(subject(record(a=kind)), avro(record(a=kind), {"a": value})) == {"a": expected}
    listed = {"type": "array", "items": kind}
    assert typed(subject(listed), avro(listed, [value])) == [expected]
    assert typed(subject(kind), avro(kind, value)) == expected


def test_a_value_that_is_no_record_is_one_column() -> None:
    reader = Avro(subject("string"))
    content = reader.read(avro("string", "x"))
    assert reader.as_column(content, ("value",), StringType()) == "x"
    assert reader.as_column(content, ("other",), StringType()) is None


def test_types_of_other_subjects() -> None:
    city = json.dumps(record("shop.City", name="string", in_="shop.Country"))
    country = json.dumps({"type": "enum", "name": "shop.Country", "symbols": ["A", "B"]})
    schema = record("shop.Order", city="City", country="shop.Country")
    orders = subject(schema, references={"city": city, "country": country})
    data = framed(b"\x02x\x02\x00")
    assert typed(orders, data) == {"city": {"name": "x", "in_": "B"}, "country": "A"}


def test_a_field_that_the_records_version_lacks_is_none_whatever_the_default() -> None:
    first = record(id="int", old="string")
    second = record(id="long", x="double")
    second["fields"][1]["default"] = 1.5
    versions = subject(first, second)
    assert typed(versions, avro(first, {"id": 1, "old": "o"})) == {"id": 1, "x": None, "old": "o"}
    assert typed(versions, avro(second, {"id": 2, "x": 1.0}, 2)) == {"id": 2, "x": 1.0, "old": None}


def test_what_another_version_has_in_a_place_decides_what_the_column_is() -> None:
    first, second = record(a="string", b="string"), record(a=["int", "string"], b=["string", NODE])
    row = typed(subject(first, second), avro(first, {"a": "x", "b": "y"}))
    assert row == {"a": {"member_int": None, "member_string": "x"}, "b": JsonText("y")}
    assert is_same(row["b"], '"y"')
    assert not is_same(row["b"], "y")


def test_a_number_has_the_unit_that_a_later_version_says() -> None:
    first, second = record(a="long"), record(a=logical("long", "timestamp-millis"))
    assert typed(subject(first, second), avro(first, {"a": 3})) == {"a": 3000}


def test_types_that_contain_themselves_are_json_text() -> None:
    leaf = {
        "decimal": logical("bytes", "decimal", precision=5, scale=2),
        "day": logical("int", "date"),
        "at": logical("long", "timestamp-micros"),
        "raw": "bytes",
        "not_finite": "double",
        "either": ["int", "string"],
        "none": ["null", "int"],
    }
    node = record("Node", **leaf, below={"type": "array", "items": "Node"})
    value = {
        "decimal": Decimal("-1.50"),
        "day": 1,
        "at": 1,
        "raw": b"\xff",
        "not_finite": float("-inf"),
        "either": "x",
        "none": None,
        "below": [],
    }
    schema = record(root=node)
    data = avro(schema, {"root": value | {"below": [value]}})
    content: dict[str, Any] = {
        "decimal": "-1.50",
        "day": "1970-01-02",
        "at": "1970-01-01T00:00:00.000001+00:00",
        "raw": "/w==",
        "not_finite": "-Infinity",
        "either": "x",
        "none": None,
        "below": [],
    }
    row = typed(subject(schema), data)
    assert is_same(row["root"], json.dumps(content | {"below": [content]}))
    assert not is_same(row["root"], json.dumps(content))
    assert not is_same(row["root"], None)
    assert not is_same(row["root"], "no JSON")


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        pytest.param("string", b"\x04x", id="cut off"),
        pytest.param("string", b"\x02xy", id="too long"),
        pytest.param("string", b"\x02\xff", id="no UTF-8"),
        pytest.param("string", b"\x03", id="negative length"),
        pytest.param("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="huge length"),
        pytest.param("int", b"\x80" * 5 + b"\x00", id="too long an int"),
        pytest.param("long", b"\x80" * 10 + b"\x00", id="too long a long"),
        pytest.param("long", b"", id="nothing"),
        pytest.param(["int", "string"], b"\x04\x00", id="no such branch"),
        pytest.param(["int", "string"], b"\x01\x00", id="a negative branch"),
        pytest.param(COLOUR, b"\x04", id="no such symbol"),
        pytest.param(COLOUR, b"\x01", id="a negative symbol"),
        pytest.param(
            {"type": "array", "items": "null"}, b"\x80\x80\x80\x80\x80\x80\x10\x00", id="a bomb"
        ),
        pytest.param(NODE, b"\x00\x02" * 100_000, id="too deep"),
        pytest.param({"type": "no type"}, b"", id="no schema"),
    ],
)
def test_wrong_bytes_are_unreadable_and_nothing_worse(schema: Any, body: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        Avro(subject(schema)).read(framed(body))
    assert ("schema" in str(caught.value)) == (schema == {"type": "no type"})


@pytest.mark.parametrize("data", [b"", b"\x00\x00", b"\x01\x00\x00\x00\x01", framed(b"", 9)])
def test_headers_of_nobody(data: bytes) -> None:
    for ask in (Avro(subject("null")).read, Avro(subject("null")).schema_id):
        with pytest.raises(Unreadable):
            ask(data)


def test_damaged_bytes_are_read_or_unreadable_and_nothing_else() -> None:
    dice = random.Random(5)  # noqa: S311
    everything = subject(EVERYTHING)
    kind = type_of(everything)
    reader = Avro(everything)
    assert isinstance(kind, StructType)
    for value in generate_many(fastavro.parse_schema(EVERYTHING), 300):
        data = bytearray(avro(EVERYTHING, value))
        data[dice.randrange(5, len(data))] ^= 1 << dice.randrange(8)
        try:
            reader.as_column(reader.read(bytes(data)), (), kind)
        except Unreadable:
            continue


def test_as_deep_as_the_write_path_goes() -> None:
    body = b"\x00\x02" * 240 + b"\x00\x00"
    row = typed(subject(NODE), framed(body))
    text: Any = None
    for _ in range(240):
        text = {"n": 0, "next": text}
    assert is_same(row["next"], json.dumps(text))


def test_what_the_specification_leaves_open_is_as_in_java() -> None:
    schema = record(flag="boolean", small="int", large="long")
    too_large = b"\xff\xff\xff\xff\x7f"  # 35 bits
    row = typed(subject(schema), framed(b"\x03" + too_large + b"\xff" * 9 + b"\x7f"))
    assert row == {"flag": False, "small": -(2**31), "large": -(2**63)}
