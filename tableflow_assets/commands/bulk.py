"""Topics with many small records, for measurements."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets import connections
from tableflow_assets.settings import Settings

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Measured",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}


class BulkTopic:
    """A new topic of its own; records are keyed by their number."""

    def __init__(self, settings: Settings, purpose: str, partitions: int) -> None:
        self.name = f"bench-{purpose}-{uuid.uuid4().hex[:8]}"
        kafka = connections.kafka_address(settings)
        topic = NewTopic(self.name, partitions, config={"retention.ms": "-1"})
        admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        admin.create_topics([topic])[self.name].result(timeout=30)
        registry = SchemaRegistryClient({"url": connections.registry_address(settings)})
        schema = Schema(json.dumps(SCHEMA), "AVRO")
        schema_id = registry.register_schema(f"{self.name}-value", schema)
        self._header = b"\x00" + int(schema_id).to_bytes(4, "big")
        self._avro = fastavro.parse_schema(dict(SCHEMA))
        self._producer = Producer(
            {
                "bootstrap.servers": kafka,
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 500_000,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "log_level": 0,
            }
        )

    def send(self, numbers: Iterable[int], note: str = "") -> None:
        for number in numbers:
            value = io.BytesIO()
            record = {"id": number, "amount": number / 100, "note": f"{note}{number * 7919}"}
            fastavro.schemaless_writer(value, self._avro, record)
            while True:
                try:
                    self._producer.produce(
                        self.name, key=f"{number:012d}", value=self._header + value.getvalue()
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.flush()
