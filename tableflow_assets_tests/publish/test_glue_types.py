"""Columns as Glue lists them, whatever the fields are called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

from tableflow_assets.publish.glue.types import (
    MAX_COMMENT,
    MAX_NAME,
    MAX_TYPE,
    glue_columns,
    glue_type,
)

HOSTILE = [
    "a b",
    "a:b",
    "a,b",
    "a<b>",
    "größe 🚂",
    "A",
    "a",
    "select",
    "x'y",
    "a_x002E_b",
    "İ",
    "ß",
    "(",
]
ANY_NAME = st.one_of(st.sampled_from(HOSTILE), st.text(min_size=1, max_size=300))


def struct(*names: str, kind: IcebergType | None = None) -> StructType:
    kind = kind or IntegerType()
    return StructType(*(NestedField(i, name, kind, False) for i, name in enumerate(names, 10)))


def schema(*names: str) -> Schema:
    return Schema(*struct(*names).fields)


@pytest.mark.parametrize(
    ("iceberg", "glue"),
    [
        (BooleanType(), "boolean"),
        (IntegerType(), "int"),
        (LongType(), "bigint"),
        (FloatType(), "float"),
        (DoubleType(), "double"),
        (DecimalType(38, 9), "decimal(38,9)"),
        (DateType(), "date"),
        (TimeType(), "string"),
        (TimestampType(), "timestamp"),
        (TimestamptzType(), "timestamp"),
        (TimestampNanoType(), "timestamp"),
        (TimestamptzNanoType(), "timestamp"),
        (StringType(), "string"),
        (UUIDType(), "string"),
        (BinaryType(), "binary"),
        (FixedType(16), "binary"),
        (UnknownType(), "string"),
        (StructType(), "string"),
        (ListType(1, LongType(), False), "array<bigint>"),
        (MapType(1, StringType(), 2, DateType(), False), "map<string,date>"),
        (struct("sku", "Count"), "struct<sku:int,count:int>"),
        (
            ListType(
                1, struct("lines", kind=MapType(2, StringType(), 3, struct("x"), False)), False
            ),
            "array<struct<lines:map<string,struct<x:int>>>>",
        ),
        (struct("a b", "a:b", "a,b<"), "struct<a_b:int,a_b_2:int,a_b_:int>"),
        (struct("a", "A", "a_2"), "struct<a:int,a_3:int,a_2:int>"),
    ],
    ids=str,
)
def test_the_type_table(iceberg: IcebergType, glue: str) -> None:
    assert glue_type(iceberg) == glue


@pytest.mark.parametrize(
    ("fields", "listed"),
    [
        (["id", "userId", "_kafka"], ["id", "userid", "_kafka"]),
        (["größe 🚂", "a b", "select"], ["größe 🚂", "a b", "select"]),
        (["A", "a"], ["a_2", "a"]),
        (["a", "A", "a_2"], ["a", "a_3", "a_2"]),
        (["line\nbreak", "line\tbreak"], ["line break", "line break_2"]),
        (["x" * 300, "X" * 300], ["x" * 255, "x" * 253 + "_2"]),
        (["é" * 200], ["é" * 127]),
    ],
)
def test_columns_whose_names_glue_has_keep_them(fields: list[str], listed: list[str]) -> None:
    assert [column["Name"] for column in glue_columns(schema(*fields))] == listed


@given(st.lists(ANY_NAME, min_size=1, max_size=8, unique=True))
def test_every_column_is_listed_once_and_under_a_name_that_glue_takes(fields: list[str]) -> None:
    columns = glue_columns(schema(*fields))
    names = [column["Name"] for column in columns]
    assert len({name.lower() for name in names}) == len(fields)
    for field, column, name in zip(fields, columns, names, strict=True):
        assert column["Parameters"]["iceberg.field.id"] == str(10 + fields.index(field))
        assert 1 <= len(name.encode()) <= MAX_NAME
        assert not re.search(r"[\x00-\x1f\ud800-\udfff]", name)
        if re.fullmatch(r"[a-z0-9_ ]{1,255}", field):
            assert name == field


@given(st.lists(ANY_NAME, min_size=1, max_size=6, unique=True), st.data())
def test_a_type_stays_readable_whatever_its_fields_are_called(
    fields: list[str], data: st.DataObject
) -> None:
    inner = struct(*data.draw(st.lists(ANY_NAME, min_size=1, max_size=4, unique=True)))
    parsed = parse(glue_type(struct(*fields, kind=ListType(1, inner, False))))
    assert len(parsed) == len(fields)
    for kind in parsed.values():
        assert len(kind[0]) == len(inner.fields)
        assert set(kind[0].values()) == {"int"}


def test_a_comment_is_one_line_of_at_most_255_bytes() -> None:
    docs = ["  two\r\nlines ", "é" * 200, "", None]
    fields = [NestedField(i, f"c{i}", LongType(), False, doc=doc) for i, doc in enumerate(docs, 1)]
    columns = glue_columns(Schema(*fields))
    assert columns[0]["Comment"] == "two  lines"
    assert columns[1]["Comment"] == "é" * 127
    assert len(columns[1]["Comment"].encode()) <= MAX_COMMENT
    assert "Comment" not in columns[2] | columns[3]


def test_a_type_that_is_too_long_is_text_and_the_others_stay() -> None:
    wide = struct(*(f"a_rather_long_name_of_a_field_{number}" for number in range(4000)))
    assert len(glue_type(wide)) > MAX_TYPE
    fields = (
        NestedField(1, "wide", wide, False, doc="All of it."),
        NestedField(2, "id", LongType(), False, doc="The number."),
    )
    first, second = glue_columns(Schema(*fields))
    assert (first["Type"], first["Comment"]) == (
        "string",
        "(its type is too long for Glue) All of it.",
    )
    assert (second["Type"], second["Comment"]) == ("bigint", "The number.")


def parse(text: str) -> Any:
    """Hive's types: a word, or a dict of a struct's fields, or a list of what stands in `<>`."""
    tokens = re.findall(r"[a-z0-9_]+|[<>:,]", text)
    assert "".join(tokens) == text

    def kind() -> Any:
        word = tokens.pop(0)
        if not tokens or tokens[0] != "<":
            return word
        parts: list[Any] = []
        names: list[str] = []
        while tokens.pop(0) in "<,":
            if word == "struct":
                names.append(tokens.pop(0))
                assert tokens.pop(0) == ":"
            parts.append(kind())
        assert len(set(names)) == len(names)
        return dict(zip(names, parts, strict=True)) if names else parts

    parsed = kind()
    assert not tokens
    return parsed
