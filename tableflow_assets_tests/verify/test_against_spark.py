"""The judge and the write path, which share no code, on the same bytes: good, damaged and of nobody.

Spark alone, without a topic: whatever it makes a row of, the judge must read as the same values and
the same key; and whatever it makes a dead letter of, the judge must not be able to read.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from fastavro import parse_schema
from fastavro.utils import generate_many
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from pyiceberg.types import IcebergType
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tableflow_assets.decode import keys as spark_keys
from tableflow_assets.decode import schemas
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.source.subject import Subject
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.columns import is_same, with_maps, with_times_as_numbers
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.topic_readers import reader_for
from tableflow_assets_tests.verify.subjects import avro, framed, logical, record, subject

NODE = record("Node", n="int", at=logical("long", "timestamp-millis"), below=["null", "Node"])
SEVERAL = ["null", "int", "long", "string", record("Inner", x="float"), "bytes"]
FIRST = record(flag="boolean", small="int", single="float", text="string", dropped="string")
SECOND = record(
    flag="boolean",
    small="long",
    single="double",
    text=["null", "string"],
    raw="bytes",
    price=logical("bytes", "decimal", precision=9, scale=2),
    day=logical("int", "date"),
    zoned=logical("long", "timestamp-micros"),
    local=logical("long", "local-timestamp-micros"),
    clock=logical("int", "time-millis"),
    colour={"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
    several=SEVERAL,
    node=NODE,
    lists={"type": "array", "items": {"type": "array", "items": ["null", "Colour"]}},
    maps={"type": "map", "values": ["null", "double"]},
    nothing="null",
    nulls={"type": "array", "items": "null"},
    empty={"type": "map", "values": record("Empty", nothing="null")},
)
PROTO_FIRST = 'syntax = "proto3"; message M { int32 id = 1; string dropped = 2; }'
PROTO_SECOND = """
    syntax = "proto3"; package p;
    import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto";
    import "google/protobuf/wrappers.proto"; import "google/protobuf/struct.proto";
    import "google/protobuf/empty.proto";
    message M {
      int64 id = 1; optional int32 maybe = 3; uint64 unsigned = 4; float single = 5; bytes raw = 6;
      enum Size { S = 0; L = 2; } Size size = 7; google.protobuf.Timestamp at = 8;
      google.protobuf.Duration took = 9; google.protobuf.Int64Value wrapped = 10;
      google.protobuf.Struct anything = 11; google.protobuf.Empty empty = 12;
      repeated Inner inners = 13; map<uint64, string> names = 14; oneof one { string a = 15; Inner b = 16; }
      message Inner { sint32 x = 1; Node node = 2; } message Node { string name = 1; Node next = 2; }
    }"""
LEAP = '"2016-12-31T18:59:60.5-05:00"'
JSON_FIRST = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "old": {"type": "string"}},
}
JSON_SECOND = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "x": {"type": "number"},
        "flag": {"type": "boolean"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "raw": {"type": "string", "contentEncoding": "base64"},
        "any": {},
        "a.b": {"type": "array", "items": {"type": ["null", "integer"]}},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "inner": {
            "type": "object",
            "properties": {"name": {"type": ["string", "null"]}},
            "additionalProperties": {"type": "integer"},
        },
    },
    "additionalProperties": {"type": "string"},
}


def avro_records() -> Iterator[bytes]:
    random.seed(3)  # what fastavro draws from
    for schema_id, schema in ((1, FIRST), (2, SECOND)):
        for value in generate_many(parse_schema(schema), 40):
            yield avro(schema, _in_range(value), schema_id)
    deep: Any = None
    for n in range(100):
        deep = {"n": n, "at": n, "below": deep}
    plain = _in_range(next(iter(generate_many(parse_schema(SECOND), 1))))
    for value in (1, 2**40, "x", {"x": 0.1}, b"\xff", None):
        yield avro(SECOND, plain | {"several": value, "node": deep}, 2)
    for days in (-719_163, -719_162, -800_000, 2_932_896, 2_932_897, 4_000_000):
        moments = {"day": days, "local": days * 86_400_000_000, "zoned": days * 86_400_000_001}
        yield avro(SECOND, plain | moments, 2)
    for number in (0.1, 1e10, 1e-5, -0.0, float("nan"), float("inf"), 1234567.5, 3.4e38):
        yield avro(SECOND, plain | {"single": number, "maps": {"b": number, "a": None}}, 2)


def _in_range(value: Any) -> Any:
    """fastavro draws moments of which Spark's calendar and Python's do not have all."""
    limits = {"day": 10**5, "local": 10**15, "zoned": 10**15, "clock": 86_400_000, "at": 10**12}
    if not isinstance(value, dict):
        return value
    fields = {name: _in_range(inner) for name, inner in value.items()}
    fields |= {name: fields[name] % limit for name, limit in limits.items() if name in fields}
    return fields | ({"price": b"\xff\x00\x01"} if "price" in fields else {})


def protobuf_records() -> Iterator[bytes]:
    def kind(text: str, name: str) -> Any:
        pool = DescriptorPool()
        for file in FileDescriptorSet.FromString(descriptors(text, {})).file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    first, second = kind(PROTO_FIRST, "M"), kind(PROTO_SECOND, "p.M")
    for n in range(20):
        yield framed(b"\0" + first(id=n - 5, dropped="é" * n).SerializeToString(), 1)
        full = second(id=2**40 - n, unsigned=2**64 - 1, single=0.1, raw=b"\xff", size=n % 3)
        full.at.FromMicroseconds(-n)
        full.took.FromMicroseconds(n - 3)
        full.wrapped.value = n % 2
        full.anything.update({"a": [1, None, {"b": "x"}]})
        full.inners.add(x=-n).node.next.name = "deep"
        full.names[2**63 + n] = "x"
        (full.empty if n % 2 else full.b).SetInParent()
        yield framed(b"\x02\x00" + full.SerializeToString(), 2)
    yield framed(b"\0", 2)
    yield framed(b"\x02\x02", 2)  # of another message
    yield framed(b"\x04\x00\x00" + b"\x08\x01", 2)


def json_records() -> Iterator[bytes]:
    dice = random.Random(1)  # noqa: S311
    values: dict[str, list[str]] = {
        "id": ["1", "-9223372036854775808", "7.0", "0", "1.5", '"1"', "9223372036854775808"],
        "x": ["1", "0.1", "1e3", "-0.0", "null"],
        "flag": ["true", "null"],
        "day": ['"2024-02-29"', '"2023-02-29"', "null"],
        "at": ['"2024-02-29T12:00:00.123456+01:00"', '"1969-12-31T23:59:59Z"', '"yesterday"', LEAP],
        "raw": ['"/w=="', '""'],
        "any": ['"x"', '{"b": 1.50, "a": [null, true]}', "12345678901234567890", "3.25", '"\\n"'],
        "a.b": ["[]", "[1, null]"],
        "map": ['{"é": "x", "": null}', "{}"],
        "inner": ['{"name": "n", "more": [[[]]]}', '{"b": 1, "a": null, "b": 2}', "null"],
        "old": ['"o"', '""'],
        "not in the schema": ["{}"],
    }
    for _ in range(150):
        chosen = {
            key: dice.choice(choices) for key, choices in values.items() if dice.random() < 0.7
        }
        body = ", ".join(f"{json.dumps(key)}: {text}" for key, text in chosen.items())
        yield framed(f"{{{body}}}".encode(), dice.choice((1, 2)))


def damaged(records: Iterable[bytes]) -> list[bytes]:
    """Each, and once more with one bit flipped, a part cut off, or a byte too many."""
    dice = random.Random(2)  # noqa: S311
    variants = []
    for data in records:
        flipped = bytearray(data)
        flipped[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        cut, longer = data[: dice.randrange(len(data))], data + b"\0"
        variants += [data, bytes(flipped), dice.choice((cut, longer))]
    return [*variants, b"", b"\x00", framed(b"\x02x", 9)]


SUBJECTS = {
    "avro": (subject(FIRST, SECOND), avro_records),
    "protobuf": (subject(PROTO_FIRST, PROTO_SECOND, kind="PROTOBUF"), protobuf_records),
    "json": (subject(JSON_FIRST, JSON_SECOND, kind="JSON"), json_records),
}


def in_spark(
    spark: SparkSession, subject: Subject, records: list[bytes]
) -> tuple[list[dict[str, Any]], IcebergType]:
    serialization = schemas.described_by(subject)
    kind = serialization.type(ColumnBuilder(subject.name))
    data, parsed = F.col("data"), F.col("read")
    rows = spark.createDataFrame(list(enumerate(records)), "at int, data binary")
    problem = serialization.problem(data, parsed)
    judged = rows.withColumn("read", serialization.parse(data)).select(
        "at",
        problem.alias("problem"),
        F.when(problem.isNull(), serialization.typed(parsed)).alias("typed"),
        spark_keys.hash_of(serialization.identity(data, parsed)).alias("hash"),
        serialization.schema_id(data).alias("id"),
    )
    results = with_times_as_numbers(judged.orderBy("at").toArrow()).to_pylist()
    return [row | {"typed": with_maps(row["typed"], kind)} for row in results], kind


@pytest.mark.parametrize("name", SUBJECTS)
def test_both_see_the_same(tableflow: Tableflow, name: str) -> None:
    subject, make = SUBJECTS[name]
    records = damaged(make())
    rows, kind = in_spark(tableflow.spark, subject, records)
    reader = reader_for(subject)
    different = [
        (row["problem"], data, problem)
        for row, data in zip(rows, records, strict=True)
        if (problem := difference(reader, data, row, kind))
    ]
    assert different == []
    good = sum(row["problem"] is None for row in rows)
    assert len(records) / 8 < good < len(records)


def difference(reader: Reader, data: bytes, row: dict[str, Any], kind: IcebergType) -> Any:
    try:
        expected = reader.as_column(reader.read(data), (), kind)
        judged = (expected, Keys(reader, kind).hash(data), reader.schema_id(data))
    except Unreadable as error:
        return None if row["problem"] else ("unreadable", str(error), row["typed"])
    if row["problem"]:
        return ("readable", expected)
    stored = (row["typed"], row["hash"], row["id"])
    return [pair for pair in zip(judged, stored, strict=True) if not is_same(*pair)]
