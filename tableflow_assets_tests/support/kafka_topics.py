"""A Kafka topic as a test handles it: created, described by a schema, written to."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import fastavro
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
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
        self._kafka = {"bootstrap.servers": kafka, "log_level": 0}
        self._admin = AdminClient(self._kafka)
        self.create(partitions)
        self._registry = registry_client(registry)
        self._producer = self._new_producer()

    @property
    def subject(self) -> str:
        return f"{self.name}-value"

    def register(self, schema: Any, subject: str | None = None, kind: str = "AVRO") -> int:
        """An Avro or JSON Schema, or the text of any schema; the topic's values' if not said."""
        text = schema if isinstance(schema, str) and kind == "PROTOBUF" else json.dumps(schema)
        registered = self._registry.register_schema(subject or self.subject, Schema(text, kind))
        return int(registered)

    def accept_any_schema(self) -> None:
        """Let the registry take versions that do not fit the ones before; needs a first one."""
        self._registry.set_compatibility(self.subject, "NONE")

    def send(
        self, schema: dict[str, Any], values: Iterable[dict[str, Any]], **message: Any
    ) -> None:
        """Values written with this schema; ``message`` may set partition, timestamp, key, headers."""
        schema_id = self.register(schema)
        self.send_bytes([framed(schema_id, schema, value) for value in values], **message)

    def send_bytes(self, values: Iterable[bytes | None], **message: Any) -> None:
        for value in values:
            self._producer.produce(self.name, value=value, on_delivery=_refused, **message)
        assert self._producer.flush(30) == 0

    def send_in_transaction(self, values: Iterable[bytes], **message: Any) -> Producer:
        """They stand in the log, but count only after the producer's ``commit_transaction``."""
        producer = Producer(self._kafka | {"transactional.id": f"{self.name}-writer"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in values:
            producer.produce(self.name, value=value, on_delivery=_refused, **message)
        assert producer.flush(30) == 0
        return producer

    def create(self, partitions: int) -> None:
        topic = NewTopic(self.name, partitions, 1, config={"retention.ms": "-1"})
        self._admin.create_topics([topic])[self.name].result(timeout=30)
        self._wait_for_partitions(partitions)

    def add_partitions(self, total: int) -> None:
        self._admin.create_partitions([NewPartitions(self.name, total)])[self.name].result(30)
        self._wait_for_partitions(total)
        self._producer = self._new_producer()  # the old one would find out only after a while

    def accept_any_timestamp(self) -> None:
        """As brokers before Kafka 4 do."""
        names = ("message.timestamp.after.max.ms", "message.timestamp.before.max.ms")
        self.configure(dict.fromkeys(names, str(2**63 - 1)))

    def configure(self, config: Mapping[str, str]) -> None:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in config.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, self.name, incremental_configs=entries)
        self._admin.incremental_alter_configs([resource])[resource].result(30)

    def delete_records_before(self, partition: int, offset: int) -> None:
        """As retention does with old records."""
        place = TopicPartition(self.name, partition, offset)
        self._admin.delete_records([place])[place].result(30)

    def delete(self) -> None:
        self._admin.delete_topics([self.name])[self.name].result(timeout=30)

    def _wait_for_partitions(self, total: int) -> None:
        """The controller has answered; on a busy machine the broker hears of it a moment later."""
        while len(self._admin.list_topics(self.name).topics[self.name].partitions) < total:
            time.sleep(0.05)

    def _new_producer(self) -> Producer:
        return Producer(self._kafka | {"enable.idempotence": True})


@cache
def registry_client(url: str) -> SchemaRegistryClient:
    """One for all tests: each new client reads the certificates that the machine trusts."""
    return SchemaRegistryClient({"url": url})


def _refused(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def payments(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2} for n in range(first, first + count)]


def framed(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """As Confluent's serializers write it: a zero byte, the schema's id, the Avro data."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(dict(schema)), value)
    return b"\x00" + schema_id.to_bytes(4, "big") + data.getvalue()
