"""The topic's schemas, as the registry has them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient

from tableflow_assets.errors import SchemaNotFound, UnsupportedSchema
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic

WIDER = PAYMENT | {"fields": [{"name": "note", "type": "string", "default": ""}]}


@pytest.fixture
def client(tableflow: Tableflow) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": tableflow.registry.url})


def test_all_versions_of_a_subject_come_oldest_first(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    ids = [kafka_topic.register(schema) for schema in (PAYMENT, WIDER)]
    subject = tableflow.registry.value_subject(kafka_topic.name)
    assert [(schema.schema_id, schema.version) for schema in subject.versions] == [
        (ids[0], 1),
        (ids[1], 2),
    ]
    assert json.loads(subject.latest.text) == WIDER
    assert tableflow.registry.latest_version(kafka_topic.name) == 2


def test_a_topic_without_a_schema_is_named(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    with pytest.raises(SchemaNotFound, match=f"no subject '{kafka_topic.name}-value'") as caught:
        tableflow.registry.value_subject(kafka_topic.name)
    assert tableflow.registry.url in caught.value.problem
    assert tableflow.registry.latest_version(kafka_topic.name) is None


def test_a_schema_that_is_not_avro_is_refused(
    tableflow: Tableflow, kafka_topic: KafkaTopic, client: SchemaRegistryClient
) -> None:
    json_schema = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}
    client.register_schema(kafka_topic.subject, Schema(json.dumps(json_schema), "JSON"))
    with pytest.raises(UnsupportedSchema, match=f"{kafka_topic.subject} version 1 is JSON"):
        tableflow.registry.value_subject(kafka_topic.name)


def test_a_schema_that_refers_to_another_subject_is_refused(
    tableflow: Tableflow, kafka_topic: KafkaTopic, client: SchemaRegistryClient
) -> None:
    other = f"{kafka_topic.name}-shared"
    client.register_schema(other, Schema(json.dumps(PAYMENT | {"namespace": "shop"}), "AVRO"))
    fields = [{"name": "payment", "type": "shop.Payment"}]
    referring = json.dumps({"type": "record", "name": "Order", "fields": fields})
    reference = SchemaReference("shop.Payment", other, 1)
    client.register_schema(kafka_topic.subject, Schema(referring, "AVRO", [reference]))
    with pytest.raises(UnsupportedSchema, match="refers to other subjects"):
        tableflow.registry.value_subject(kafka_topic.name)
