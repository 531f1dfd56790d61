"""Topics with many small records, for measurements."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import fastavro
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Measured",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}


def avro_writer(schema: dict[str, Any]) -> Callable[[Any], bytes]:
    parsed_schema = fastavro.parse_schema(dict(schema))

    def write(record: Any) -> bytes:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed_schema, record)
        return body.getvalue()

    return write


def bulk_producer(bootstrap_servers: str) -> Producer:
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.size": 500_000,
            "compression.type": "lz4",
            "queue.buffering.max.messages": 500_000,
            "log_level": 0,
        }
    )


class BulkTopic:
    """A new topic of its own; records are keyed by their number.

    ``schema`` is registered, and ``write`` encodes the body of a value with that schema.
    """

    def __init__(
        self,
        settings: Settings,
        purpose: str,
        partitions: int,
        schema: Schema | None = None,
        write: Callable[[Any], bytes] | None = None,
    ) -> None:
        self.name = f"bench-{purpose}-{uuid.uuid4().hex[:8]}"
        kafka = connections.kafka_address(settings)
        topic = NewTopic(self.name, partitions, config={"retention.ms": "-1"})
        admin = AdminClient({"bootstrap.servers": kafka, "log_level": 0})
        admin.create_topics([topic])[self.name].result(timeout=30)
        registry = SchemaRegistryClient({"url": connections.registry_address(settings)})
        value_schema = schema or Schema(json.dumps(SCHEMA), "AVRO")
        schema_id = registry.register_schema(f"{self.name}-value", value_schema)
        self._header = b"\x00" + int(schema_id).to_bytes(4, "big")
        self._write = write or avro_writer(SCHEMA)
        self._producer = bulk_producer(kafka)

    def send(self, numbers: Iterable[int], note: str = "", timestamp_ms: int = 0) -> None:
        """``timestamp_ms``: the same for all records; 0 is now."""
        records = (
            (number, {"id": number, "amount": number / 100, "note": f"{note}{number * 7919}"})
            for number in numbers
        )
        self.send_records(records, timestamp_ms)

    def send_records(self, numbered: Iterable[tuple[int, Any]], timestamp_ms: int = 0) -> None:
        for number, record in numbered:
            value = self._header + self._write(record)
            while True:
                try:
                    self._producer.produce(
                        self.name, key=f"{number:012d}", value=value, timestamp=timestamp_ms
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        self._producer.flush()
