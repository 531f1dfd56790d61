"""Many small topics of one partition each, and when each of their records was sent."""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.bench.bulk_topic import SCHEMA, avro_writer, bulk_producer
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections

CREATED_AT_ONCE = 200  # a broker answers a request for thousands too late


class ManyTopics:
    """New topics; a number tells a record's offset, because nobody else sends to them."""

    def __init__(self, settings: Settings, count: int) -> None:
        prefix = f"bench-topics-{uuid.uuid4().hex[:6]}"
        self.names = tuple(f"{prefix}-{number:05d}" for number in range(count))
        self._sent_at: defaultdict[str, list[float]] = defaultdict(list)
        self._visible: defaultdict[str, int] = defaultdict(int)
        kafka = connections.kafka_address(settings)
        self._create(AdminClient({"bootstrap.servers": kafka, "log_level": 0}))
        registry = SchemaRegistryClient({"url": connections.registry_address(settings)})
        schema = Schema(json.dumps(SCHEMA), "AVRO")
        ids = {registry.register_schema(f"{name}-value", schema) for name in self.names}
        self._header = b"\x00" + ids.pop().to_bytes(4, "big")  # the same for all
        self._write = avro_writer(SCHEMA)
        self._producer = bulk_producer(kafka)

    def send(self, names: Iterable[str]) -> None:
        """One record to each of them."""
        for name in names:
            number = len(self._sent_at[name])
            body = self._write({"id": number, "amount": number / 100, "note": "as it goes"})
            self._producer.produce(name, key=f"{number:012d}", value=self._header + body)
            self._sent_at[name].append(time.monotonic())
        self._producer.flush()

    def became_visible(self, name: str, end: int) -> float:
        """How old the oldest record that was not visible before has become, in seconds."""
        first, self._visible[name] = self._visible[name], end
        return time.monotonic() - self._sent_at[name][first] if end > first else 0.0

    def unread(self) -> dict[str, float]:
        """Per topic with such records, the age of the oldest that is not visible yet."""
        now = time.monotonic()
        return {
            name: now - sent[self._visible[name]]
            for name, sent in tuple(self._sent_at.items())
            if len(sent) > self._visible[name]
        }

    def _create(self, admin: AdminClient) -> None:
        for first in range(0, len(self.names), CREATED_AT_ONCE):
            chunk = self.names[first : first + CREATED_AT_ONCE]
            for created in admin.create_topics([NewTopic(name, 1) for name in chunk]).values():
                created.result(timeout=60)
