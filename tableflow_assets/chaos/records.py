"""What the harness's producers send: framed Avro, and bytes that are not Avro."""

from __future__ import annotations

import io
import json
import random
import time
from dataclasses import dataclass

import fastavro
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.chaos.topics import OLD, ChaosTopic
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections

SECONDS_TO_ANSWER = 30
SCHEMA = {
    "type": "record",
    "name": "ChaosRecord",
    "fields": [{"name": "number", "type": "long"}, {"name": "text", "type": "string"}],
}
_PARSED = fastavro.parse_schema(SCHEMA)


@dataclass(frozen=True)
class Message:
    key: bytes | None
    value: bytes | None
    timestamp_ms: int = 0  # 0: the time of sending


class Messages:
    """A topic's numbered records; the same seed gives the same records."""

    def __init__(self, topic: ChaosTopic, schema_id: int, seed: int) -> None:
        self._topic = topic
        self._header = b"\x00" + schema_id.to_bytes(4, "big")
        self._chance = random.Random(f"{seed}/{topic.name}")  # noqa: S311
        self._number = 0

    def good(self) -> Message:
        self._number += 1
        if not self._topic.keys:
            return Message(None, self._encoded(), self._timestamp())
        key = f"key-{self._chance.randrange(self._topic.keys)}".encode()
        is_tombstone = self._chance.random() < self._topic.tombstone_share
        return Message(key, None if is_tombstone else self._encoded())

    def bad(self) -> Message:
        """No Avro at all, an unknown schema, or data that ends too early."""
        values = (b"not framed", b"\x00\x7f\xff\xff\xff data", self._header + b"\x02")
        return Message(None, self._chance.choice(values))

    def _timestamp(self) -> int:
        is_old = self._topic.old_share and self._chance.random() < self._topic.old_share
        return int((time.time() - OLD.total_seconds()) * 1000) if is_old else 0

    def _encoded(self) -> bytes:
        data = io.BytesIO(self._header)
        data.seek(0, io.SEEK_END)
        value = {"number": self._number, "text": f"record {self._number}"}
        fastavro.schemaless_writer(data, _PARSED, value)
        return data.getvalue()


def create_topics(topics: tuple[ChaosTopic, ...], settings: Settings) -> dict[str, int]:
    """Create the topics and register their schema; returns its id by topic."""
    address = connections.kafka_address(settings)
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    new_topics = [NewTopic(topic.name, topic.partitions, 1) for topic in topics]
    try:
        for creation in admin.create_topics(new_topics).values():
            creation.result(timeout=SECONDS_TO_ANSWER)
    except (KafkaException, TimeoutError) as error:
        reason = str(error) or f"no answer within {SECONDS_TO_ANSWER} s"
        raise ServerUnreachable("Kafka", address, reason) from error
    client = SchemaRegistryClient(
        {"url": connections.registry_address(settings), "timeout": SECONDS_TO_ANSWER}
    )
    schema = Schema(json.dumps(SCHEMA), "AVRO")
    return {t.name: int(client.register_schema(f"{t.name}-value", schema)) for t in topics}
