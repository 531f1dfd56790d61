"""The labs' topics and products under names of a test's own, fed and read as the test says."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Consumer, TopicPartition

from tableflow_assets.labs.avro_schemas import parsed_schema, schema_text
from tableflow_assets.labs.stream import LAB_TOPICS
from tableflow_assets.product.definition import parse
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Runner, RunResult
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.product.exact import comparable
from tableflow_assets_tests.product.hostile import Sent
from tableflow_assets_tests.product.log import Logged, Row
from tableflow_assets_tests.product.oracle import KEYS
from tableflow_assets_tests.support.kafka_topics import KafkaTopic

SHOP = ("unique_payments", "completed_orders", "product_sales", "thirty_day_customer_snapshot")
HOTELS = (
    "customer_with_watermark",
    "hotel_with_watermark",
    "bookings_with_watermark",
    "denormalized_hotel_bookings",
    "hotel_stats",
    "prospects",
)


class World:
    def __init__(self, tableflow: Tableflow, products: Sequence[str] = (*SHOP, *HOTELS)) -> None:
        self._id = uuid.uuid4().hex[:8]
        self._kafka = connections.kafka_address(tableflow.settings)
        registry = connections.registry_address(tableflow.settings)
        self.sql = {
            name: name for name in products
        }  # by product, the labs' file that it is made with
        self._base = tableflow
        self.topics: dict[str, KafkaTopic] = {}
        self._schema_ids: dict[str, int] = {}
        names = {name for product in self.products() for name in product.definition.inputs}
        for name in sorted(names & set(LAB_TOPICS)):
            topic = KafkaTopic(self._kafka, registry, self._own(name), partitions=3)
            self.topics[name] = topic
            self._schema_ids[name] = topic.register(json.loads(schema_text(name)))

    @property
    def tableflow(self) -> Tableflow:
        """With the products as they are defined now, on the connections of the session."""
        options = {
            self._own(name): ProductOptions(
                sql=sql, inputs={source: self._own(source) for source in _inputs(sql)}
            )
            for name, sql in self.sql.items()
        }
        settings = self._base.settings.model_copy(update={"products": options})
        flow = Tableflow(settings)
        for shared in ("catalog", "spark", "log", "registry"):
            flow.__dict__[shared] = getattr(self._base, shared)
        return flow

    def products(self) -> tuple[Product, ...]:
        return self.tableflow.products

    def runner(self, name: str) -> Runner:
        flow = self.tableflow
        return flow.runner(
            next(product for product in flow.products if product.name == self._own(name))
        )

    def send(self, records: Iterable[Sent]) -> None:
        for record in records:
            if record.topic in self.topics:
                self.topics[record.topic].send_bytes(
                    [self._framed(record)], key=record.key, timestamp=record.timestamp_ms
                )

    def land(self) -> None:
        """All that was sent becomes rows of the topics' tables."""
        flow = self.tableflow
        pipelines = [flow.pipeline(flow.topic(topic.name)) for topic in self.topics.values()]
        with ThreadPoolExecutor(4) as workers:
            list(workers.map(lambda pipeline: pipeline.catch_up(), pipelines))

    def run(self) -> dict[str, RunResult]:
        """Every product once, in order."""
        flow = self.tableflow
        return {
            self._plain(product.name): flow.runner(product).run("test") for product in flow.products
        }

    def rows(self, name: str) -> list[Row]:
        table = self._base.catalog.find(self._own(name))
        assert table is not None
        rows = comparable(table.scan().to_arrow().to_pylist())
        return sorted(rows, key=lambda row: [row[column] for column in KEYS[name]])

    def log(self) -> list[Logged]:
        """What Kafka holds, read by a plain consumer."""
        return [record for name in self.topics for record in self._read(name)]

    def table(self, name: str) -> str:
        return self._own(name)

    def _read(self, name: str) -> Iterable[Logged]:
        topic = self.topics[name].name
        consumer = Consumer({"bootstrap.servers": self._kafka, "group.id": f"oracle-{self._id}"})
        places = [TopicPartition(topic, number, 0) for number in range(3)]
        ends = {place.partition: consumer.get_watermark_offsets(place)[1] for place in places}
        consumer.assign([place for place in places if ends[place.partition]])
        remaining = sum(ends.values())
        while remaining:
            message = consumer.poll(10)
            assert message is not None and message.error() is None
            remaining -= 1
            value: Any = fastavro.schemaless_reader(
                io.BytesIO(message.value()[5:]), parsed_schema(name), None
            )
            yield Logged(name, message.partition(), message.offset(), message.timestamp()[1], value)
        consumer.close()

    def _framed(self, record: Sent) -> bytes:
        data = io.BytesIO(struct.pack(">bI", 0, self._schema_ids[record.topic]))
        data.seek(0, io.SEEK_END)
        fastavro.schemaless_writer(data, parsed_schema(record.topic), record.value)
        return data.getvalue()

    def _own(self, name: str) -> str:
        return f"p{self._id}_{name.replace('.', '_')}"

    def _plain(self, own: str) -> str:
        return own.removeprefix(f"p{self._id}_")


def _inputs(sql: str) -> tuple[str, ...]:
    """Of a product of the labs, or of a file."""
    labs = files("tableflow_assets.product").joinpath("sql", f"{sql}.sql")
    text = Path(sql).read_text() if sql.endswith(".sql") else labs.read_text("utf-8")
    return parse(sql, text).inputs
