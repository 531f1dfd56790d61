"""The columns of a topic's table: those of its values, and where each row comes from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import StructType

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.plain import Raw, Text
from tableflow_assets.decode.schemas import Schemas, described_by
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.decode.types import ICEBERG_NAMES, table_schema
from tableflow_assets.settings.blocks import Mode
from tableflow_assets.source.subject import RegisteredSchema, Subject


def avro(*schemas: Any) -> Serialization:
    versions = (RegisteredSchema(n, n, json.dumps(schema)) for n, schema in enumerate(schemas, 1))
    return described_by(Subject("orders-value", tuple(versions)))


def record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    described = [{"name": field, "type": kind} for field, kind in fields]
    return {"type": "record", "name": name, "fields": described}


def columns_of(value: Any, mode: Mode = "append", key: Serialization | None = None) -> Schema:
    return table_schema(Schemas(avro(value), key or Raw()), mode)


def place_of(schema: Schema) -> dict[str, str]:
    place = schema.find_type("_kafka")
    assert isinstance(place, StructType)
    return {f.name: str(f.field_type) for f in place.fields if f.name != "headers"}


PLACE = {
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamptz",
    "key": "binary",
    "schema_id": "int",
}


def test_the_last_column_says_where_the_row_comes_from() -> None:
    schema = columns_of(record(("a", "int")))
    assert [column.name for column in schema.fields] == ["a", "_kafka"]
    assert place_of(schema) == PLACE
    assert str(schema.find_type("_kafka.headers.element.value")) == "binary"


def test_a_key_that_is_more_than_bytes_is_there_typed() -> None:
    assert place_of(columns_of(record(("a", "int")), key=Text())) == PLACE | {
        "decoded_key": "string"
    }
    schema = columns_of(record(("a", "int")), key=avro(record(("id", "long"))))
    assert str(schema.find_type("_kafka.decoded_key.id")) == "long"


def test_a_table_with_one_row_a_key_knows_its_keys() -> None:
    place = place_of(columns_of(record(("a", "int")), "upsert"))
    assert place == PLACE | {"key_hash": "binary", "key_timestamp": "timestamptz"}


@pytest.mark.parametrize(
    ("avro_type", "column"),
    [("string", "string"), ({"type": "array", "items": "int"}, "list<int>")],
)
def test_a_value_that_is_no_record_is_one_column(avro_type: Any, column: str) -> None:
    assert str(columns_of(avro_type).find_type("value")) == column


def test_a_record_without_fields_has_a_table_of_places() -> None:
    assert [column.name for column in columns_of(record()).fields] == ["_kafka"]


def test_the_columns_of_a_changed_row_are_those_of_its_envelope() -> None:
    after = ["null", record(("id", "int"), name="Row")]
    schema = columns_of(record(("after", after), ("op", "string")), "cdc")
    assert [column.name for column in schema.fields] == ["id", "_kafka"]
    with pytest.raises(UnsupportedSchema, match="Debezium"):
        columns_of(record(("id", "int")), "cdc")


@pytest.mark.parametrize("name", ["_kafka", "_KAFKA", "_kafka_window", *ICEBERG_NAMES])
def test_a_field_with_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedSchema, match=f"'{name}'"):
        columns_of(record((name, "int")))
    inner = record((name, "int"), name="Inner")
    assert columns_of(record(("x", inner))).find_type(f"x.{name}")


def test_fields_that_differ_only_in_case_are_refused() -> None:
    with pytest.raises(UnsupportedSchema, match="differ only in case: Id, id"):
        columns_of(record(("Id", "int"), ("id", "int"), ("x", "int")))


def test_every_column_may_be_null_and_no_two_fields_share_an_id() -> None:
    inner = record(("c", {"type": "map", "values": "int"}), name="Inner")
    schema = columns_of(record(("a", {"type": "array", "items": inner}), ("b", "int")), "upsert")
    everything = list(schema._lazy_id_to_field.values())
    assert len({field.field_id for field in everything}) == len(everything)
    assert not any(field.required for field in everything if field.name != "key")


def test_versions_of_several_kinds_are_refused() -> None:
    versions = (RegisteredSchema(1, 1, '"string"'), RegisteredSchema(2, 2, "{}", "JSON"))
    with pytest.raises(UnsupportedSchema, match="AVRO, JSON"):
        described_by(Subject("orders-value", versions))
