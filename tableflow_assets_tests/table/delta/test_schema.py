"""What a Delta log says of an Iceberg table's columns."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from tableflow_assets.base.errors import UnsupportedInDelta
from tableflow_assets.table.delta.schema import delta_schema, features, physical_name
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.table.delta.readers import field

HOSTILE_NAMES = (
    *("plain", "_x20", "a b", "1st", "9", "a-b", "select", "x,y;z{}()=", "a.b", "a/b%20", "a`b"),
    *(
        "größe 🚂",
        "日本語",
        "²x",
        "x²",
        "½",
        "٣three",
        "a٣",
        "Ⅷ",
        "e\u0301",
        "x\u200by",
        "a\u00a0b",
    ),
    *("\U0001d518x", "x\U0001d7d8", "𐐀", "'q", "$", "ª", "ʰ"),
)


def test_names_in_the_files_are_those_that_iceberg_writes(tableflow: Tableflow) -> None:
    catalog, name = tableflow.catalog, f"names_{uuid.uuid4().hex[:12]}"
    catalog.ensure_namespace()
    columns = ", ".join(f"1 AS `{name.replace('`', '``')}`" for name in HOSTILE_NAMES)
    spark_name = f"{tableflow.settings.spark_catalog}.{catalog.namespace}.{name}"
    tableflow.spark.sql(
        f"CREATE TABLE {spark_name} USING iceberg AS SELECT {columns},"
        " named_struct('2nd one', array(named_struct('🚂', 1)), 'm', map(1, named_struct('-', 1)))"
        " AS `st ruct`"
    )
    table = catalog.find(name)
    assert table is not None
    (task,) = table.scan().plan_files()
    with table.io.new_input(task.file.file_path).open() as file:
        file_schema = pq.ParquetFile(file).schema
    paths = [file_schema.column(at).path for at in range(len(HOSTILE_NAMES) + 3)]
    assert paths == [
        *map(physical_name, HOSTILE_NAMES),
        "st_x20ruct._2nd_x20one.list.element._xD83D_xDE82",
        "st_x20ruct.m.key_value.key",
        "st_x20ruct.m.key_value.value._x2D",
    ]


def test_nested_columns_keep_their_ids_and_documentation() -> None:
    schema = Schema(
        field(1, "a b", StringType(), doc='the "first"'),
        field(2, "st", StructType(field(3, "1st", DecimalType(9, 2)))),
        field(4, "list", ListType(5, StructType(field(6, "x", FixedType(4))), False)),
        field(7, "map", MapType(8, StringType(), 9, TimestamptzType(), False)),
    )
    assert json.loads(delta_schema(schema)) == struct(
        column("a b", "string", 1, "a_x20b", comment='the "first"'),
        column("st", struct(column("1st", "decimal(9,2)", 3, "_1st")), 2, "st"),
        column("list", array(struct(column("x", "binary", 6, "x"))), 4, "list"),
        column(
            "map",
            {"type": "map", "keyType": "string", "valueType": "timestamp"}
            | {"valueContainsNull": True},
            7,
            "map",
        ),
    )


def test_widened_columns_say_what_they_were() -> None:
    """Wherever they stand, and in the order of their widening, which need not be that of the schemas."""

    def version(whole: IcebergType, broken: IcebergType, digits: int, at: int) -> Schema:
        amount = DecimalType(digits, 2)
        return Schema(
            field(1, "whole", whole),
            field(2, "st", StructType(field(3, "amount", amount))),
            field(4, "lists", ListType(5, ListType(6, broken, False), False)),
            field(7, "map", MapType(8, StringType(), 9, ListType(10, whole, False), False)),
            schema_id=at,
        )

    first = version(IntegerType(), FloatType(), 9, 0)
    second = version(IntegerType(), FloatType(), 12, 1)
    third = version(LongType(), DoubleType(), 18, 2)

    def changes(now: Schema, *history: Schema) -> list[list[dict[str, str]] | None]:
        document = json.loads(delta_schema(now, {schema.schema_id: schema for schema in history}))
        whole, outer, lists, mapped = document["fields"]
        fields = (whole, outer["type"]["fields"][0], lists, mapped)
        return [field["metadata"].get("delta.typeChanges") for field in fields]

    int_to_long = {"fromType": "integer", "toType": "long"}
    assert changes(third, third, second, first) == [
        [int_to_long],
        [
            {"fromType": "decimal(9,2)", "toType": "decimal(12,2)"},
            {"fromType": "decimal(12,2)", "toType": "decimal(18,2)"},
        ],
        [{"fromType": "float", "toType": "double", "fieldPath": "element.element"}],
        [int_to_long | {"fieldPath": "value.element"}],
    ]
    assert changes(first, first) == [None] * 4
    # A table of the past, whose later schemas are known.
    assert changes(first, first, second, third) == [None] * 4


def test_a_reader_needs_to_know_of_times_without_a_zone() -> None:
    nested = StructType(field(2, "when", ListType(3, TimestampType(), False)))
    assert features(Schema(field(1, "st", nested))) == ("columnMapping", "timestampNtz")
    assert features(Schema(field(1, "when", TimestamptzType()))) == ("columnMapping",)


@pytest.mark.parametrize("kind", [TimeType(), UUIDType()])
def test_a_type_that_delta_lacks_is_refused_by_its_place(kind: IcebergType) -> None:
    inner = ListType(2, StructType(field(3, "in", kind)), False)
    with pytest.raises(UnsupportedInDelta, match=r"'out\.element\.in'.*\n.*formats: \[iceberg\]"):
        delta_schema(Schema(field(1, "out", inner)))


def test_columns_of_one_name_in_the_files_are_refused() -> None:
    with pytest.raises(UnsupportedInDelta, match=r"'a_x20b'.*'a b'"):
        delta_schema(Schema(field(1, "a b", LongType()), field(2, "a_x20b", LongType())))


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def column(name: str, kind: Any, at: int, physical: str, **metadata: Any) -> dict[str, Any]:
    mapping = {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": physical}
    return {"name": name, "type": kind, "nullable": True, "metadata": mapping | metadata}
