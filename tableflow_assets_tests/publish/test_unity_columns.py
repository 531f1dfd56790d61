"""Columns as Unity Catalog has them: checked by Spark's own reader of types, and a parser of its SQL."""

from __future__ import annotations

import json

import pytest
import sqlglot
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
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from pyspark.sql.types import StructField

from tableflow_assets.base.errors import UnsupportedInDelta
from tableflow_assets.publish.base import ListedColumn
from tableflow_assets.publish.unity.types import (
    UnityColumn,
    listed_as_answered,
    listed_column,
    unity_columns,
)

STRUCT = StructType(
    NestedField(21, "city", StringType(), required=False, doc="Where it is."),
    NestedField(22, "at", TimestampType(), required=True),
)
TYPES: list[tuple[IcebergType, str, str]] = [
    (BooleanType(), "boolean", "BOOLEAN"),
    (IntegerType(), "int", "INT"),
    (LongType(), "bigint", "LONG"),
    (FloatType(), "float", "FLOAT"),
    (DoubleType(), "double", "DOUBLE"),
    (StringType(), "string", "STRING"),
    (BinaryType(), "binary", "BINARY"),
    (FixedType(16), "binary", "BINARY"),
    (DateType(), "date", "DATE"),
    (TimestamptzType(), "timestamp", "TIMESTAMP"),
    (TimestampType(), "timestamp_ntz", "TIMESTAMP_NTZ"),
    (DecimalType(38, 10), "decimal(38,10)", "DECIMAL"),
    (STRUCT, "struct<city:string,at:timestamp_ntz>", "STRUCT"),
    (ListType(30, DecimalType(4, 2), False), "array<decimal(4,2)>", "ARRAY"),
    (
        MapType(40, StringType(), 41, ListType(42, STRUCT, False), False),
        "map<string,array<struct<city:string,at:timestamp_ntz>>>",
        "MAP",
    ),
]


def column(kind: IcebergType, name: str = "value", doc: str | None = None) -> UnityColumn:
    (unity_column,) = unity_columns(Schema(NestedField(1, name, kind, required=False, doc=doc)))
    return unity_column


@pytest.mark.parametrize(("kind", "text", "name"), TYPES, ids=lambda value: str(value)[:24])
def test_every_type_is_said_as_spark_says_it(kind: IcebergType, text: str, name: str) -> None:
    unity_column = column(kind, doc="What it is.")
    assert (unity_column.type_text, unity_column.type_name) == (text, name)
    field = StructField.fromJson(json.loads(unity_column.type_json))
    assert (field.name, field.nullable, field.metadata["comment"]) == ("value", True, "What it is.")
    assert field.dataType.simpleString() == text
    assert (unity_column.position, unity_column.nullable, unity_column.comment) == (
        0,
        True,
        "What it is.",
    )


def test_of_a_decimal_the_digits_are_said_by_themselves_too() -> None:
    assert [(c.type_precision, c.type_scale) for c in (column(DecimalType(9, 3)),)] == [(9, 3)]
    assert column(LongType()).type_precision is None


@pytest.mark.parametrize("kind", [UUIDType(), TimeType(), ListType(2, UUIDType(), False)], ids=str)
def test_what_delta_has_no_type_for_is_refused_by_the_column_s_name(kind: IcebergType) -> None:
    with pytest.raises(UnsupportedInDelta, match="'when"):
        column(kind, name="when")


def test_names_inside_of_types_are_quoted_where_they_are_not_plain() -> None:
    hostile = ["a b", "x:int>,y struct<z", "tick`tock", "1st", "ünï", "plain_1"]
    struct = StructType(
        *(
            NestedField(at, name, LongType(), required=False)
            for at, name in enumerate(hostile, start=5)
        )
    )
    text = column(struct).type_text
    parsed = sqlglot.exp.DataType.build(text, dialect="databricks")
    assert [part.name for part in parsed.expressions] == hostile
    assert text.endswith("`ünï`:bigint,plain_1:bigint>")


def test_columns_stand_in_their_order() -> None:
    fields = [NestedField(at, f"c{at}", LongType(), required=False) for at in (3, 1, 2)]
    assert [(column.name, column.position) for column in unity_columns(Schema(*fields))] == [
        ("c3", 0),
        ("c1", 1),
        ("c2", 2),
    ]


@pytest.mark.parametrize(
    "said",
    [
        {"type_json": '{"name": "v", "type": "long", "nullable": false, "metadata": {}}'},
        {"type_json": '"long"', "type_text": "BIGINT"},
        {"type_json": None, "type_text": "bigint"},
        {"type_json": "no json", "type_text": "bigint"},
        {"type_json": '{"name": "v"}', "type_text": "bigint"},
    ],
)
def test_a_type_is_understood_however_it_was_written(said: dict[str, str | None]) -> None:
    assert listed_as_answered({"name": "v"} | said) == ListedColumn("v", "bigint")


@pytest.mark.parametrize(("kind", "text", "_name"), TYPES, ids=lambda value: str(value)[:24])
def test_what_was_written_is_read_as_the_same(kind: IcebergType, text: str, _name: str) -> None:
    written = column(kind, doc="What it is.")
    assert (
        listed_as_answered(vars(written))
        == listed_column(written)
        == ListedColumn("value", text, "What it is.")
    )


def test_a_type_that_we_do_not_write_is_shown_as_it_is_called() -> None:
    assert listed_as_answered({"name": "v", "type_json": '"variant"'}).type == "variant"
