"""The judge on topics that are not Avro: clean where they are right, and a changed value is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import PartitionResult, verify
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, rows_of
from tableflow_assets_tests.table import damage

MESSAGE = 'syntax = "proto3"; message Order { int64 id = 1; Order before = 2; }'
KEY = {"type": "object", "properties": {"id": {"type": "integer"}}}


def judged(pipeline: Pipeline, **options: Any) -> list[PartitionResult]:
    return verify(
        pipeline.log,
        pipeline.catalog,
        pipeline.topic,
        registry=pipeline.registry,
        deep=True,
        **options,
    )


def clean(pipeline: Pipeline) -> int:
    """How many rows were compared value by value."""
    results = [*judged(pipeline), *judged(pipeline, newest_commit_only=True)]
    assert all(result.ok for result in results), results
    return sum(result.sampled for result in judged(pipeline))


def difference(pipeline: Pipeline) -> str:
    [text] = [text for result in judged(pipeline) for text in result.differences]
    return text


def test_json_that_no_registry_knows(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    """Keys that say the same are one key, in whatever spelling."""
    options = {"value": "json", "key": "json", "mode": "upsert"}
    pipeline = pipeline_of(tableflow, kafka_topic, **options)
    for key, value in (('{"a":1,"b":2}', "1"), ('"x"', "[ 2 ]"), ('{ "b":2, "a":1.0 }', "3")):
        kafka_topic.send_bytes([value.encode()], partition=0, key=key.encode())
    kafka_topic.send_bytes([b"{"], partition=0, key=b"1")
    pipeline.catch_up()
    kafka_topic.send_bytes([None], partition=0, key=b' "x"')
    pipeline.catch_up()
    assert [row["value"] for row in rows_of(pipeline)] == ["3"]
    assert clean(pipeline) == 1
    damage.run_sql(pipeline, "UPDATE TABLE SET _kafka.decoded_key = '1'")
    assert ' _kafka.decoded_key: the log has \'{ "b":2' in difference(pipeline)


@pytest.mark.parametrize("value", ["string", "raw"])
def test_plain_values(tableflow: Tableflow, kafka_topic: KafkaTopic, value: str) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, value=value, key="string")
    kafka_topic.send_bytes([b"x", "é".encode()], partition=0, key=b"k")
    kafka_topic.send_bytes([b"\xff"], partition=0)
    pipeline.catch_up()
    assert clean(pipeline) == (3 if value == "raw" else 2)


def test_json_whose_other_members_get_a_type(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    """A table that is there already gets a column for them."""
    inner = {"type": "object", "properties": {"a": {"type": "integer"}}}
    names = {"additionalProperties": {"type": "string"}}
    any_member = {"type": "object", "properties": {"inner": inner}}
    typed_member = any_member | {"properties": {"inner": inner | names}} | names
    pipeline = pipeline_of(tableflow, kafka_topic)
    for schema in (any_member, typed_member):
        header = b"\0" + kafka_topic.register(schema, kind="JSON").to_bytes(4, "big")
        kafka_topic.accept_any_schema()
        value = json.dumps({"x": "y", "inner": {"a": 1, "b": "c"}}).encode()
        kafka_topic.send_bytes([header + value], partition=0)
        assert pipeline.catch_up().rows == 1
    before, after = rows_of(pipeline)
    assert before["inner"] == {"a": 1, ADDITIONAL_COLUMN: None}
    assert after["inner"] == {"a": 1, ADDITIONAL_COLUMN: [("b", '"c"')]}
    assert (before[ADDITIONAL_COLUMN], after[ADDITIONAL_COLUMN]) == (None, [("x", '"y"')])
    assert clean(pipeline) == 2
    changed = f"UPDATE TABLE SET {ADDITIONAL_COLUMN} = map('x', '0') WHERE _kafka.offset = 1"  # noqa: S608
    damage.run_sql(pipeline, changed)
    assert f" 0:1 {ADDITIONAL_COLUMN}: the log has " in difference(pipeline)


def test_protobuf_with_keys_in_json(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    client = kafka_topic._registry
    schema_id = client.register_schema(kafka_topic.subject, Schema(MESSAGE, "PROTOBUF"))
    key_id = client.register_schema(f"{kafka_topic.name}-key", Schema(json.dumps(KEY), "JSON"))
    header, key_header = (b"\0" + number.to_bytes(4, "big") for number in (schema_id, key_id))
    for n in range(3):
        body = bytes((8, n, 0x12, 2, 8, 1))  # its id, and one before it
        key = key_header + json.dumps({"id": n // 2}).encode()
        kafka_topic.send_bytes([header + b"\0" + body], partition=0, key=key)
    kafka_topic.send_bytes([header + b"\x02\x08"], partition=0, key=key_header + b"{}")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert clean(pipeline) == 2
    assert {row["before"] for row in rows_of(pipeline)} == {'{"id":"1"}'}
    damage.run_sql(pipeline, """UPDATE TABLE SET before = '{"id":"2"}' WHERE id = 2""")
    assert " before: the log has JsonText(value={'id': '1'}" in difference(pipeline)
