"""Records that can be read only once their schema is registered for their topic."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed

NEXT = PAYMENT | {
    "fields": [
        *PAYMENT["fields"],  # type: ignore[misc]
        {"name": "note", "type": ["null", "string"], "default": None},
    ]
}


class Late:
    """A topic whose producer uses a schema that its subject does not have yet."""

    def __init__(self, topic: KafkaTopic, registry: str) -> None:
        self.topic = topic
        topic.register(PAYMENT)
        client = SchemaRegistryClient({"url": registry})
        schema = Schema(json.dumps(NEXT), "AVRO")
        # Known elsewhere, so that it has an id. Registered for the topic, it has the same.
        self.schema_id = int(client.register_schema(f"{topic.name}-elsewhere", schema))

    def send(self, *ids: int, partition: int = 0, **message: Any) -> None:
        values = [{"id": n, "amount": n / 2, "note": f"note {n}"} for n in ids]
        data = [framed(self.schema_id, NEXT, value) for value in values]
        self.topic.send_bytes(data, partition=partition, **message)

    def register(self) -> None:
        assert self.topic.register(NEXT) == self.schema_id
