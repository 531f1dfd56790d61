"""A topic whose producers use several versions of a schema, each with its real serializer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.drawn.format import Format, Write
from tableflow_assets_tests.support.drawn.shapes import Record
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import compared, pipeline_of, table_of


class Sent(NamedTuple):
    """A record: of which version (the first is 0), and its value."""

    version: int
    value: Any


class VersionedTopic:
    """A version is registered with its first record, whatever the versions before it."""

    def __init__(self, tableflow: Tableflow, of: Format, versions: Sequence[Record]) -> None:
        kafka = connections.kafka_address(tableflow.settings)
        registry = connections.registry_address(tableflow.settings)
        self.kafka = KafkaTopic(kafka, registry, f"drawn-{uuid4().hex[:12]}", partitions=1)
        self.registry = SchemaRegistryClient({"url": registry, "timeout": 5})
        self.pipeline = pipeline_of(tableflow, self.kafka)
        self._context = SerializationContext(self.kafka.name, MessageField.VALUE)
        self._writers: list[Write] = [of.write(version, self.registry) for version in versions]
        self._has_schema = False

    def send(self, records: Iterable[Sent]) -> None:
        for version, value in records:
            self.kafka.send_bytes([self._writers[version](value, self._context)], partition=0)
            if not self._has_schema:
                self.kafka.accept_any_schema()
                self._has_schema = True


def read_with_spark(pipeline: Pipeline) -> list[dict[str, Any]]:
    """In the order of the log. Not with pyiceberg: it reads a list or a map of structs that is NULL
    as an empty one."""
    rows = pipeline.spark.table(pipeline.spark_table).orderBy("_kafka.offset")
    return list(rows.toArrow().to_pylist())


def columns(pipeline: Pipeline) -> dict[str, str]:
    """All of the table's, nested ones too, whatever their order."""
    schema = table_of(pipeline).schema()
    kinds = {schema.find_column_name(n): schema.find_type(n) for n in schema.field_ids}
    return {str(name): str(kind) for name, kind in kinds.items() if kind.is_primitive}


def judged(pipeline: Pipeline) -> int:
    """How many rows were found equal to their records, value by value; none may differ."""
    results = compared(pipeline, sample=1000)
    assert all(result.ok for result in results), results
    return sum(result.sampled for result in results)
