"""A subject with hundreds of versions, as years of small changes leave it behind."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic, framed
from tableflow_assets_tests.support.tables import pipeline_of, rows_of, verified

VERSIONS = 300
IN_ONE_STEP = [*range(0, VERSIONS, 10), VERSIONS - 1]


class Written(NamedTuple):
    """How one kind of schema tells its versions apart: another default, and every tenth a field more."""

    kind: str
    schema: Callable[[int], Any]
    value: Callable[[int, int], bytes]  # of a version and its schema id


def added(version: int) -> list[str]:
    return [f"f{number}" for number in range(version // 10)]


def avro(version: int) -> dict[str, Any]:
    more = [{"name": name, "type": ["null", "int"], "default": None} for name in added(version)]
    fields = [{"name": "id", "type": "int", "default": version}, *more]
    return {"type": "record", "name": "Reading", "fields": fields}


def json_schema(version: int) -> dict[str, Any]:
    properties = {name: {"type": "integer"} for name in added(version)}
    number = {"type": "integer", "default": version}
    return {"type": "object", "title": "Reading", "properties": {"id": number} | properties}


def protobuf(version: int) -> str:
    """Compiled, as Python's serializer registers it: to compile hundreds here would take long."""
    file = FileDescriptorProto(name="reading.proto", syntax="proto3")
    fields = file.message_type.add(name="Reading")
    fields.reserved_range.add(start=1000 + version, end=1001 + version)
    for number, name in enumerate(("id", *added(version)), start=1):
        fields.oneof_decl.add(name=f"_{name}")
        fields.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.TYPE_INT32,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
            proto3_optional=True,
            oneof_index=number - 1,
        )
    return base64.b64encode(file.SerializeToString()).decode()


def header(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")


KINDS = {
    "Avro": Written(
        "AVRO",
        avro,
        lambda version, at: framed(
            at, avro(version), {"id": version, **dict.fromkeys(added(version), version)}
        ),
    ),
    "JSON Schema": Written(
        "JSON",
        json_schema,
        lambda version, at: (
            header(at)
            + json.dumps({"id": version, **dict.fromkeys(added(version), version)}).encode()
        ),
    ),
    "Protobuf": Written(
        "PROTOBUF",
        protobuf,
        lambda version, at: header(at) + b"\x00" + message(version),
    ),
}


def message(version: int) -> bytes:
    """Field 1 and those from 2 on, all varints."""
    fields = enumerate(("id", *added(version)), start=1)
    return b"".join(varint(number << 3) + varint(version) for number, _ in fields)


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_with_hundreds_of_schema_versions_is_read(
    tableflow: Tableflow, kafka_topic: KafkaTopic, kind: str
) -> None:
    written = KINDS[kind]
    kafka_topic.register(written.schema(0), kind=written.kind)
    kafka_topic.accept_any_schema()
    ids = [
        kafka_topic.register(written.schema(version), kind=written.kind)
        for version in range(VERSIONS)
    ]
    assert len(set(ids)) == VERSIONS
    kafka_topic.send_bytes(
        [written.value(version, ids[version]) for version in IN_ONE_STEP], partition=0
    )
    kafka_topic.send_bytes([header(2**31 - 1) + b"x"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)

    done = pipeline.catch_up()

    assert (done.rows, done.dead_letters) == (len(IN_ONE_STEP), 1)
    rows = rows_of(pipeline)
    assert [row["id"] for row in rows] == IN_ONE_STEP
    assert [row["_kafka"]["schema_id"] for row in rows] == [ids[version] for version in IN_ONE_STEP]
    assert [row["f3"] for row in rows] == [v if v >= 40 else None for v in IN_ONE_STEP]
    verified(pipeline)
