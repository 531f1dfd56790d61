"""A Kafka topic as a test handles it: created, described by a schema, written to."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "int", "doc": "The payment's number"},
        {"name": "amount", "type": ["null", "double"], "default": None},
    ],
}


class KafkaTopic:
    def __init__(self, kafka: str, registry: str, name: str, partitions: int = 2) -> None:
        self.name = name
        self._admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        topic = NewTopic(name, partitions, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[name].result(timeout=30)
        self._registry = SchemaRegistryClient({"url": registry})
        self._producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})

    def register(self, schema: dict[str, Any]) -> int:
        subject = f"{self.name}-value"
        return int(self._registry.register_schema(subject, Schema(json.dumps(schema), "AVRO")))

    def send(
        self, schema: dict[str, Any], values: Iterable[dict[str, Any]], **message: Any
    ) -> None:
        """Values written with this schema; ``message`` may set partition, timestamp, key, headers."""
        schema_id = self.register(schema)
        self.send_bytes([framed(schema_id, schema, value) for value in values], **message)

    def send_bytes(self, values: Iterable[bytes | None], **message: Any) -> None:
        for value in values:
            self._producer.produce(self.name, value=value, **message)
        assert self._producer.flush(30) == 0

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(timeout=30)


def framed(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """As Confluent's serializers write it: a zero byte, the schema's id, the Avro data."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(dict(schema)), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + data.getvalue()
