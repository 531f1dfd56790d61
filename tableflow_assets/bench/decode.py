"""What decoding costs: the same topic read with and without decoding, in turns, in one run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.schema_registry import Schema
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import DataFrame
from rich.progress import Progress

from tableflow_assets.bench.bulk_topic import BulkTopic, avro_writer
from tableflow_assets.decode.decode import decode
from tableflow_assets.decode.protobuf.schema import message_at
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.decode.protobuf.version import pool_of
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.reader import read_records
from tableflow_assets.tableflow import Tableflow

PARTITIONS = 4
ITEM = [{"name": "sku", "type": "string"}, {"name": "quantity", "type": "int"}]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "placed_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "items",
            "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": ITEM}},
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
PROTOBUF = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Order {
  message Item { string sku = 1; int32 quantity = 2; }
  int64 id = 1;
  string customer = 2;
  double amount = 3;
  bool paid = 4;
  google.protobuf.Timestamp placed_at = 5;
  repeated Item items = 6;
  optional string note = 7;
}
"""
JSON = {
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "customer": {"type": "string"},
        "amount": {"type": "number"},
        "paid": {"type": "boolean"},
        "placed_at": {"type": "string", "format": "date-time"},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "quantity": {"type": "integer"}},
            },
        },
        "note": {"type": ["string", "null"]},
    },
}
FIRST_SECOND = 1_767_225_600  # 2026-01-01


def measure_decoding(
    settings: Settings, records: int, rounds: int, progress: Progress
) -> list[dict[str, object]]:
    tableflow = Tableflow(settings)
    task = progress.add_task("sending", total=len(_WRITERS) * (rounds + 2))
    results = []
    for kind, (schema, write) in _WRITERS.items():
        purpose = f"decode-{kind.split()[0].lower()}"
        topic = BulkTopic(settings, purpose, PARTITIONS, schema(), write())
        progress.update(task, description=f"{kind}: sending")
        topic.send_records((number, _order(number)) for number in range(records))
        progress.advance(task)
        ways = _ways(tableflow.pipeline(Topic(name=topic.name)))
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 1):
            progress.update(task, description=f"{kind}: round {number}")
            for name, rows in ways.items():
                took = _seconds_to_read(rows())
                if number:  # the first round warms up
                    seconds[name].append(took)
            progress.advance(task)
        results.append({"serialization": kind} | _summary(seconds, records))
    return results


def _ways(pipeline: Pipeline) -> dict[str, Callable[[], DataFrame]]:
    plan = pipeline.plan()
    schemas, table = pipeline.schemas(), pipeline.ensure_table(plan.topic)

    def undecoded() -> DataFrame:
        return read_records(pipeline.spark, pipeline.log, plan)

    def decoded() -> DataFrame:
        return decode(undecoded(), schemas, table.schema(), pipeline.topic.mode).rows

    return {"undecoded": undecoded, "decoded": decoded}


def _seconds_to_read(rows: DataFrame) -> float:
    began = time.monotonic()
    rows.write.format("noop").mode("overwrite").save()  # reads every column, writes nothing
    return time.monotonic() - began


def _summary(seconds: dict[str, list[float]], records: int) -> dict[str, object]:
    medians = {name: statistics.median(took) for name, took in seconds.items()}
    return {
        "undecoded_records_per_second": round(records / medians["undecoded"]),
        "decoded_records_per_second": round(records / medians["decoded"]),
        "ratio": round(medians["undecoded"] / medians["decoded"], 2),
    }


def _order(number: int) -> dict[str, Any]:
    items = [{"sku": f"sku-{number % 977}-{n}", "quantity": n + 1} for n in range(number % 4)]
    return {
        "id": number,
        "customer": f"customer-{number * 7919 % 100_003}",
        "amount": number / 100,
        "paid": number % 3 == 0,
        "placed_at": time.gmtime(FIRST_SECOND + number),
        "items": items,
        "note": f"as agreed {number}" if number % 2 else None,
    }


def _avro() -> Callable[[Any], bytes]:
    write = avro_writer(AVRO)
    return lambda order: write(order | {"placed_at": 1000 * (FIRST_SECOND + order["id"])})


def _json(order: dict[str, Any]) -> bytes:
    return json.dumps(_with_text(order)).encode()


def _protobuf() -> Callable[[Any], bytes]:
    files = descriptors(PROTOBUF, {})
    message = pool_of(files).FindMessageTypeByName(message_at(files, [0]))
    order_class = GetMessageClass(message)

    def write(order: dict[str, Any]) -> bytes:
        order_message = json_format.ParseDict(_with_text(order), order_class())
        return b"\x00" + bytes(order_message.SerializeToString())  # message index: the first

    return write


def _with_text(order: dict[str, Any]) -> dict[str, Any]:
    return order | {"placed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", order["placed_at"])}


_WRITERS: dict[str, tuple[Callable[[], Schema], Callable[[], Callable[[Any], bytes]]]] = {
    "Avro": (lambda: Schema(json.dumps(AVRO), "AVRO"), _avro),
    "Protobuf": (lambda: Schema(PROTOBUF, "PROTOBUF"), _protobuf),
    "JSON Schema": (lambda: Schema(json.dumps(JSON), "JSON"), lambda: _json),
}
