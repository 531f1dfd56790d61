"""Every row of docs/types.md, from Confluent's serializer to pyiceberg and DuckDB."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from tableflow_assets.decode.column_names import column_name, field_name
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.stack import connections
from tableflow_assets.table.schema_diff import type_text
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.decode import type_cases
from tableflow_assets_tests.decode.protobuf.messages import message_class
from tableflow_assets_tests.decode.type_cases import AVRO, JSON, PROTOBUF, parsed
from tableflow_assets_tests.support.drawn.format import BY_TOPIC
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, rows_of, table_of, verified

DOCS = (Path(__file__).parents[2] / "docs" / "types.md").read_text()
CASES = {"Avro": AVRO, "Protobuf": PROTOBUF, "JSON Schema": JSON}


def documented(section: str) -> dict[str, str]:
    """The rows of a section's table: first cell, second cell."""
    text = DOCS.split(f"\n## {section}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    return {first: second.strip("`") for first, second in rows[1:]}


class Landed(NamedTuple):
    """One record, as two engines read it from the table, and the types of its columns."""

    pyiceberg: dict[str, Any]
    duckdb: dict[str, Any]
    types: dict[str, str]


def land(tableflow: Tableflow, write: Callable[[SerializationContext], bytes]) -> Landed:
    settings = tableflow.settings
    topic = KafkaTopic(
        connections.kafka_address(settings),
        connections.registry_address(settings),
        f"types-{uuid.uuid4().hex[:12]}",
    )
    topic.send_bytes([write(SerializationContext(topic.name, MessageField.VALUE))], partition=0)
    pipeline = pipeline_of(tableflow, topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (1, 0)
    verified(pipeline)
    catalog = tableflow.catalog
    with closing(connect_duckdb(catalog.connection, catalog.storage)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute(f'SELECT * FROM "{pipeline.topic.table}"')  # noqa: S608
        names = [column[0] for column in cursor.description or ()]
        in_duckdb = dict(zip(names, cursor.fetchall()[0], strict=True))
    types = {
        field.name: type_text(field.field_type) for field in table_of(pipeline).schema().fields
    }
    return Landed(rows_of(pipeline)[0], in_duckdb, types)


@pytest.fixture(scope="module")
def landed(tableflow: Tableflow) -> dict[str, Landed]:
    client = SchemaRegistryClient({"url": tableflow.registry.url})
    avro = AvroSerializer(client, json.dumps(type_cases.avro_schema()), conf=BY_TOPIC)
    of_json = JSONSerializer(json.dumps(type_cases.json_schema()), client, conf=BY_TOPIC)
    kind = message_class(type_cases.protobuf_source(), "Everything")
    protobuf = ProtobufSerializer(kind, client, BY_TOPIC | {"use.deprecated.format": False})
    values = {name: {f"f{n}": c.sent for n, c in enumerate(CASES[name].values())} for name in CASES}
    writers: dict[str, Callable[[SerializationContext], Any]] = {
        "Avro": partial(avro, values["Avro"]),
        "Protobuf": partial(protobuf, type_cases.protobuf_message(kind)),
        "JSON Schema": partial(of_json, values["JSON Schema"]),
    }
    return {name: land(tableflow, write) for name, write in writers.items()}


def comparable(value: Any) -> Any:
    """Maps as dictionaries: pyarrow has them as pairs."""
    if isinstance(value, dict):
        return {key: comparable(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    return value


@pytest.mark.parametrize(
    ("serialization", "row"), [(name, row) for name in CASES for row in documented(name)]
)
def test_a_documented_type_comes_out_as_it_went_in(
    landed: dict[str, Landed], serialization: str, row: str
) -> None:
    cases = CASES[serialization]
    column, tables = f"f{list(cases).index(row)}", landed[serialization]
    assert tables.types[column] == documented(serialization)[row]
    expected = cases[row].expected
    for engine in (tables.pyiceberg, tables.duckdb):
        value = comparable(engine[column])
        assert value == expected or parsed(value) == expected, (column, value)


@pytest.mark.parametrize("serialization", CASES)
def test_every_case_is_documented(serialization: str) -> None:
    assert list(documented(serialization)) == list(CASES[serialization])


@pytest.mark.parametrize(
    ("setting", "sent", "expected"),
    [
        ("json", b'{"a": [1, 2.50]}', '{"a": [1, 2.50]}'),
        ("string", "Zoë 🚂".encode(), "Zoë 🚂"),
        ("raw", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_value_without_a_schema_is_one_column(
    tableflow: Tableflow, kafka_topic: KafkaTopic, setting: str, sent: bytes, expected: Any
) -> None:
    kafka_topic.send_bytes([sent], partition=0, key=sent)
    pipeline = pipeline_of(tableflow, kafka_topic, value=setting, key=setting)
    pipeline.catch_up()
    (row,) = rows_of(pipeline)
    assert row["value"] == expected
    assert row["_kafka"].get("decoded_key", sent) == expected
    kind = type_text(table_of(pipeline).schema().find_type("value"))
    assert kind == documented("Without a registry")[f"`value: {setting}`"]
    verified(pipeline)


@pytest.mark.parametrize(("name", "column"), documented("Names").items())
def test_a_documented_name_becomes_its_column_and_back(name: str, column: str) -> None:
    field = name.strip("`") if not name.startswith("``") else name[2:-2]
    assert column_name(field) == column
    assert field_name(column) == field
