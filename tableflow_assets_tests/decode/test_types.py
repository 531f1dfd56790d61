"""The type mapping: what each Avro type becomes, and what is refused, with the place named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from tableflow_assets.decode.types import table_schema
from tableflow_assets.errors import UnsupportedSchema


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def columns_of(schema: Any) -> Schema:
    return table_schema(json.dumps(schema), "orders-value")


def type_of(kind: Any) -> IcebergType:
    return columns_of(record(field("x", kind))).find_type("x")


def refusal(schema: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as caught:
        columns_of(schema)
    assert "orders-value" in caught.value.problem
    assert caught.value.next_step
    return caught.value


SUIT = {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}
MD5 = {"type": "fixed", "name": "Md5", "size": 16}


@pytest.mark.parametrize(
    ("avro", "iceberg"),
    [
        *((name, name) for name in ("boolean", "int", "long", "float", "double", "string")),
        ({"type": "long"}, "long"),
        ({"type": "string", "avro.java.string": "String"}, "string"),
        (SUIT, "string"),
        ({"type": "string", "logicalType": "uuid"}, "string"),
        ("bytes", "binary"),
        (MD5, "binary"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9, 2)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "decimal(5, 0)"),
        (MD5 | {"logicalType": "decimal", "precision": 38, "scale": 10}, "decimal(38, 10)"),
        ({"type": "int", "logicalType": "date"}, "date"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamptz"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamptz"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, "timestamp"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "long", "logicalType": "time-micros"}, "long"),
        ({"type": "long", "logicalType": "of-somebody-else"}, "long"),
        (["null", "int"], "int"),
        (["long", "null"], "long"),
        (["string"], "string"),
        (["null", {"type": "int", "logicalType": "date"}], "date"),
        ({"type": ["null", "double"]}, "double"),
    ],
)
def test_a_scalar_becomes_the_type_of_the_table(avro: Any, iceberg: str) -> None:
    assert str(type_of(avro)) == iceberg


def test_an_array_becomes_a_list() -> None:
    kind = type_of({"type": "array", "items": ["null", "int"]})
    assert isinstance(kind, ListType)
    assert str(kind.element_type) == "int"
    assert not kind.element_required


def test_a_map_becomes_a_map_with_string_keys() -> None:
    kind = type_of({"type": "map", "values": "double"})
    assert isinstance(kind, MapType)
    assert (str(kind.key_type), str(kind.value_type)) == ("string", "double")
    assert not kind.value_required


def test_a_record_becomes_a_struct_with_the_documentation_of_its_fields() -> None:
    inner = record(field("a", "int", doc="the first"), field("b", "string"), name="Inner")
    kind = type_of(["null", inner])
    assert isinstance(kind, StructType)
    assert [(f.name, str(f.field_type), f.doc) for f in kind.fields] == [
        ("a", "int", "the first"),
        ("b", "string", None),
    ]


def test_columns_keep_the_order_and_the_documentation_of_the_fields() -> None:
    schema = columns_of(record(field("b", "int", doc="The number"), field("a", "string")))
    assert [(column.name, column.doc) for column in schema.fields[:2]] == [
        ("b", "The number"),
        ("a", None),
    ]


def test_every_column_is_optional_so_that_the_topic_may_drop_it() -> None:
    schema = columns_of(record(field("a", "int"), field("b", record(field("c", "int"), name="B"))))
    assert not any(schema.find_field(name).required for name in ("a", "b", "b.c", "_kafka"))


def test_the_last_column_says_where_the_row_comes_from() -> None:
    schema = columns_of(record(field("a", "int")))
    assert [column.name for column in schema.fields] == ["a", "_kafka"]
    place = schema.find_type("_kafka")
    assert isinstance(place, StructType)
    assert {f.name: str(f.field_type) for f in place.fields if f.name != "headers"} == {
        "partition": "int",
        "offset": "long",
        "timestamp": "timestamptz",
        "key": "binary",
        "schema_id": "int",
    }
    assert str(schema.find_type("_kafka.headers.element.value")) == "binary"


def test_no_two_fields_share_an_id() -> None:
    kinds = [
        {"type": "array", "items": {"type": "map", "values": record(field("z", "int"), name="Z")}},
        {"type": "map", "values": {"type": "array", "items": "Z"}},
    ]
    columns = record(*(field(f"f{n}", kind) for n, kind in enumerate(kinds)))
    ids = columns_of(columns).field_ids
    # f0 and its element, key, value, z; f1 and its key, value, element, z; _kafka and its nine.
    assert len(ids) == len(set(ids)) == 5 + 5 + 10


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "int"}]}


@pytest.mark.parametrize(
    ("root", "definition", "reference"),
    [
        ({}, INNER, "Inner"),
        ({}, INNER | {"namespace": "shop"}, "shop.Inner"),
        ({"namespace": "shop"}, INNER, "Inner"),
        # A name without a namespace of its own has that of the type around it, and a name with dots
        # in it brings its namespace along.
        ({"namespace": "shop"}, INNER, "shop.Inner"),
        ({"name": "shop.R"}, INNER, "shop.Inner"),
        ({"namespace": "shop"}, INNER | {"name": "shop.Inner"}, "Inner"),
        ({}, INNER | {"name": "shop.Inner"}, "shop.Inner"),
    ],
)
def test_a_type_is_found_again_by_its_name(
    root: dict[str, str], definition: dict[str, Any], reference: str
) -> None:
    schema = columns_of(record(field("a", definition), field("b", ["null", reference])) | root)
    assert str(schema.find_type("a.n")) == str(schema.find_type("b.n")) == "int"


def test_types_of_one_name_in_two_namespaces_stay_apart() -> None:
    other = {"type": "record", "name": "Inner", "namespace": "y", "fields": [field("s", "string")]}
    schema = columns_of(
        record(field("a", INNER | {"namespace": "x"}), field("b", other), field("c", "x.Inner"))
    )
    assert str(schema.find_type("c.n")) == "int"


@pytest.mark.parametrize("kind", [SUIT, MD5])
def test_enums_and_fixed_types_are_found_again_by_name(kind: dict[str, Any]) -> None:
    schema = columns_of(record(field("a", kind), field("b", kind["name"])))
    assert schema.find_type("a") == schema.find_type("b")


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (["int", "string"], "x"),
        (["null", "int", "string"], "x"),
        (record(field("y", ["int", "string"]), name="Y"), "x.y"),
        ({"type": "array", "items": ["int", "string"]}, "x.element"),
        ({"type": "map", "values": record(field("z", ["int", "string"]), name="Z")}, "x.value.z"),
    ],
)
def test_a_union_of_several_types_is_refused_with_the_path_of_the_field(
    kind: Any, path: str
) -> None:
    problem = refusal(record(field("a", "int"), field("x", kind))).problem
    assert f"'{path}'" in problem
    assert "union of several types" in problem


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (["null", "R"], "parent"),
        ({"type": "array", "items": "R"}, "parent.element"),
        ({"type": "map", "values": "R"}, "parent.value"),
        (record(field("up", ["null", "R"]), name="Y"), "parent.up"),
        (record(field("self", ["null", "Y"]), name="Y"), "parent.self"),
    ],
)
def test_a_type_that_contains_itself_is_refused_with_the_path_of_the_field(
    kind: Any, path: str
) -> None:
    problem = refusal(record(field("a", "int"), field("parent", kind))).problem
    assert f"'{path}'" in problem
    assert "contains itself" in problem


def test_a_type_used_twice_side_by_side_does_not_contain_itself() -> None:
    schema = columns_of(record(field("a", INNER), field("b", "Inner"), field("c", "Inner")))
    assert str(schema.find_type("c.n")) == "int"


@pytest.mark.parametrize("kind", ["null", "Unknown", ["null"]])
def test_a_type_without_a_column_is_refused_with_the_path_of_the_field(kind: Any) -> None:
    assert "'x'" in refusal(record(field("x", kind))).problem


@pytest.mark.parametrize("schema", ["string", {"type": "string"}, ["null", record()], SUIT])
def test_a_schema_that_is_no_record_is_refused(schema: Any) -> None:
    assert "not a record" in refusal(schema).problem


@pytest.mark.parametrize("name", ["_kafka", "_KAFKA"])
def test_a_field_with_the_name_of_our_own_column_is_refused(name: str) -> None:
    assert "'_kafka'" in refusal(record(field(name, "int"))).problem


def test_fields_that_differ_only_in_case_are_refused() -> None:
    problem = refusal(record(field("Id", "int"), field("id", "int"), field("x", "int"))).problem
    assert "differ only in case: id" in problem


@pytest.mark.parametrize("name", ["_kafka", "Id"])
def test_fields_of_different_records_may_have_the_same_name(name: str) -> None:
    inner = record(field(name, "int"), name="Inner")
    schema = columns_of(record(field("id", "int"), field("x", inner)))
    assert str(schema.find_type(f"x.{name}")) == "int"


# Spark can neither write nor read a table with such a struct.
def test_fields_inside_a_record_that_differ_only_in_case_are_refused() -> None:
    inner = record(field("a", "int"), field("A", "int"), name="Inner")
    assert "'x'" in refusal(record(field("x", ["null", inner]))).problem


# The catalog would take the empty struct, but pyiceberg could not load the table any more.
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_record_without_fields_inside_another_is_refused(wrapped: bool) -> None:
    empty = record(name="Empty")
    kind = {"type": "array", "items": empty} if wrapped else empty
    assert "'x" in refusal(record(field("x", kind))).problem


def test_a_decimal_that_no_table_can_hold_is_refused_with_the_path_of_the_field() -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 39}
    assert "'x'" in refusal(record(field("x", kind))).problem
