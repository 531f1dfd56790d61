"""Protobuf in Spark: few queries over many records, compared with google.protobuf's own parser."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import date
from decimal import Decimal
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.conform import spark_type
from tableflow_assets.decode.decode import Schemas, decode
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.protobuf.decoder import ProtobufDecoder
from tableflow_assets.decode.protobuf.protobuf import Protobuf
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.decode.protobuf.version import pool_of
from tableflow_assets.decode.types import table_schema
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.tableflow import Tableflow

COMMON = "".join(
    f'import "google/{name}.proto";'
    for name in (
        *(f"protobuf/{n}" for n in ("any", "duration", "empty", "struct", "timestamp", "wrappers")),
        "type/date",
    )
)
NUMBERS = ("double", "float", "int32", "sint64", "sfixed32", "uint32", "fixed64", "uint64")
KINDS = (
    *(*NUMBERS, "bool", "string", "bytes", "Suit"),
    *(f"google.protobuf.{n}" for n in ("Timestamp", "Duration", "Value", "Struct", "Empty")),
    *(f"google.protobuf.{n}Value" for n in ("UInt64", "Int32", "String", "Bool")),
    *("google.type.Date", "Inner", "Node"),
)
MESSAGES = """
enum Suit { HEARTS = 0; SPADES = 1; CLUBS = -3; }
message Node { repeated Node children = 1; string name = 2; }
message Inner { repeated Deep deep = 3; string text = 1; map<sint32, bytes> bytes_of = 2; }
message Deep { optional int64 number = 3; repeated Suit suits = 2; uint64 big = 1; }
"""


def proto3(body: str) -> str:
    return f'syntax = "proto3"; package t; {COMMON} {body}'


def everything() -> str:
    """A message with every type: plain, with presence, repeated, in a map, in a oneof."""
    fields = []
    for at, kind in enumerate(KINDS):
        number = 10 * (len(KINDS) - at)  # not the order of the columns
        fields.append(f"{kind} plain{at} = {number}; repeated {kind} many{at} = {number + 1};")
        fields.append(f"optional {kind} may{at} = {number + 2};")
        fields.append(f"map<string, {kind}> map{at} = {number + 3};")
        fields.append(
            f"oneof o{at} {{ {kind} one{at} = {number + 4}; int32 else{at} = {number + 5}; }}"
        )
    keys = ("int32", "uint64", "bool", "fixed32", "sint64")
    fields += [f"map<{key}, int32> by_{key} = {900 + at};" for at, key in enumerate(keys)]
    return proto3(f"message M {{ {' '.join(fields)} }} {MESSAGES}")


def subject(*texts: str) -> Subject:
    versions = enumerate(texts, start=1)
    return Subject("s-value", tuple(RegisteredSchema(n, n, t, "PROTOBUF") for n, t in versions))


def writer(text: str) -> Any:
    return message_factory.GetMessageClass(
        pool_of(descriptors(text, {})).FindMessageTypeByName("t.M")
    )


def framed(message: Any, schema_id: int = 1, indexes: bytes = b"\0") -> bytes:
    content = message if isinstance(message, bytes) else message.SerializeToString()
    return struct.pack(">bi", 0, schema_id) + indexes + content


@pytest.fixture(scope="module")
def spark(tableflow: Tableflow) -> SparkSession:
    return tableflow.spark


def in_spark(spark: SparkSession, protobuf: Protobuf, records: Iterable[bytes | None]) -> DataFrame:
    rows = [(at, each) for at, each in enumerate(records)]
    value, read = F.col("value"), F.col("read")
    return (
        spark.createDataFrame(rows, "at int, value binary")
        .withColumn("read", protobuf.parse(value))
        .withColumn("problem", F.when(value.isNotNull(), protobuf.problem(value, read)))
        .withColumn("row", protobuf.typed(read))
        .withColumn("schema_id", protobuf.schema_id(value))
        .withColumn("identity", protobuf.identity(value, read))
        .orderBy("at")
    )


def as_json(message: Any) -> Any:
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


SPECIAL: dict[str, Callable[[Any], Any]] = {
    "Timestamp": lambda time: time.seconds * 1_000_000 + time.nanos // 1000,
    "Duration": lambda duration: duration.ToMicroseconds(),
    "Date": lambda day: date(day.year, day.month, day.day),
    "Empty": lambda _: True,
    "UInt64Value": lambda wrapper: Decimal(wrapper.value),
    **dict.fromkeys(("Int32Value", "StringValue", "BoolValue"), attrgetter("value")),
    **dict.fromkeys(("Value", "Struct", "Node"), as_json),
}


class Oracle:
    """What google.protobuf finds in a message, as the types' table says it should be in the row."""

    def row(self, message: Any) -> dict[str, Any]:
        return {field.name: self._field(message, field) for field in message.DESCRIPTOR.fields}

    def _field(self, message: Any, field: FieldDescriptor) -> Any:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            # Reading a key of a map of messages would add it.
            return {self._value(k, key): self._value(value[k], item) for k in list(value)}
        if field.is_repeated:
            return [self._value(each, field) for each in value]
        if field.has_presence and not message.HasField(field.name):
            return None
        return self._value(value, field)

    def _value(self, value: Any, field: FieldDescriptor) -> Any:
        if field.message_type is not None:
            return self._message(value, field.message_type.full_name)
        if field.enum_type is not None:
            symbol = field.enum_type.values_by_number.get(value)
            return symbol.name if symbol else str(value)
        is_unsigned = field.type in (field.TYPE_UINT64, field.TYPE_FIXED64)
        return Decimal(value) if is_unsigned else value

    def _message(self, value: Any, name: str) -> Any:
        special = SPECIAL.get(name.rpartition(".")[2])
        return special(value) if special else self.row(value)


def comparable(value: Any, kind: pa.DataType, example: Any) -> Any:
    """Of Spark's row: timestamps as microseconds, maps as dictionaries, JSON text as what it says."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: comparable(value[f.name], f.type, example[f.name]) for f in kind}
    if pa.types.is_map(kind):
        return {k: comparable(v, kind.item_type, example.get(k)) for k, v in value}
    if pa.types.is_list(kind):
        return [comparable(v, kind.value_type, e) for v, e in zip(value, example, strict=True)]
    if pa.types.is_timestamp(kind):
        return pa.scalar(value, kind).value
    is_json = pa.types.is_string(kind) and value and not isinstance(example, str)
    return json.loads(value) if is_json else value


class Filler:
    """Puts random values into a message, some fields into none."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311

    def message(self, message: Any, depth: int = 0) -> Any:
        for field in message.DESCRIPTOR.fields:
            if self.chance.random() < 0.4 + depth / 5:
                continue
            value = getattr(message, field.name)
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                self._map(value, field, depth)
            elif field.is_repeated and field.message_type is not None:
                self._fill(value.add(), depth)
            elif field.is_repeated:
                value.extend(self._scalar(field) for _ in range(self.chance.randrange(3)))
            elif field.message_type is not None:
                self._fill(value, depth)
                value.SetInParent()
            else:
                setattr(message, field.name, self._scalar(field))
        return message

    def _map(self, value: Any, field: FieldDescriptor, depth: int) -> None:
        key, item = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        for _ in range(self.chance.randrange(3)):
            chosen = self._scalar(key)
            if item.message_type is not None:
                self._fill(value[chosen], depth)
            else:
                value[chosen] = self._scalar(item)

    def _fill(self, message: Any, depth: int) -> None:
        match message.DESCRIPTOR.full_name:
            case "google.protobuf.Timestamp":
                message.seconds = self.chance.randrange(-62_135_596_800, 253_402_300_799)
                message.nanos = self.chance.randrange(10**9)
            case "google.protobuf.Duration":
                message.FromMicroseconds(self.chance.randrange(-(10**15), 10**15))
            case "google.type.Date":
                day = date.fromordinal(self.chance.randrange(1, date.max.toordinal()))
                message.year, message.month, message.day = day.year, day.month, day.day
            case "google.protobuf.Value":
                message.list_value.extend([1.5, "x", None, {"a": [True]}])
            case "google.protobuf.Struct":
                message.update({"ä": [1.0, None], "b": {"c": "d"}})
            case _:
                self.message(message, depth + 1)

    def _scalar(self, field: FieldDescriptor) -> Any:
        unsigned = (field.TYPE_UINT64, field.TYPE_FIXED64, field.TYPE_UINT32, field.TYPE_FIXED32)
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return self.chance.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self.chance.choice([0, 1, -3, 77])
            case FieldDescriptor.CPPTYPE_DOUBLE | FieldDescriptor.CPPTYPE_FLOAT:
                return self.chance.choice([0.0, -1.5, 2.0**100, float("inf")])
            case FieldDescriptor.CPPTYPE_STRING:
                text = self.chance.choice(["", "Grüße 👋", "\0", "x" * 300])
                return text.encode() if field.type == field.TYPE_BYTES else text
            case FieldDescriptor.CPPTYPE_INT32 | FieldDescriptor.CPPTYPE_UINT32:
                bits = 32
            case _:
                bits = 64
        least = 0 if field.type in unsigned else -(2 ** (bits - 1))
        return self.chance.choice([0, 1, least, least + 2**bits - 1])


def test_every_type_is_in_spark_what_googles_parser_finds(spark: SparkSession) -> None:
    text = everything()
    message, protobuf = writer(text), Protobuf(subject(text))
    messages = [message(), *(Filler(seed).message(message()) for seed in range(60))]
    decoded = in_spark(spark, protobuf, [framed(each) for each in messages])
    row_type = spark_type(protobuf.type(ColumnBuilder("s")))
    assert decoded.schema["row"].dataType.simpleString() == row_type.replace("`", "").replace(
        ": ", ":"
    ).replace(", ", ",")
    table = decoded.select("problem", "row").toArrow()
    assert table["problem"].null_count == len(messages)
    kind = table["row"].type
    for row, each in zip(table["row"].to_pylist(), messages, strict=True):
        expected = Oracle().row(message.FromString(each.SerializeToString()))
        assert comparable(row, kind, expected) == expected


VERSIONS = (
    proto3("message M { int32 n = 1; string gone = 2; }"),
    proto3("message Other {} message M { int32 n = 1; string added = 4; }"),
    proto3(
        "message M { int64 n = 3; string added = 2; optional In in = 1; } message In { int32 x=1; }"
    ),
)


def test_every_record_is_read_with_its_own_version(spark: SparkSession) -> None:
    first, second, third = (writer(text) for text in VERSIONS)
    records = [
        framed(first(n=1, gone="g"), 1),
        framed(second(n=2, added="a"), 2, b"\x02\x02"),
        framed(third(n=2**40, **{"in": {"x": 5}}), 3),
        framed(first(n=4), 1, b"\x02\0"),
    ] * 20
    decoded = in_spark(spark, Protobuf(subject(*VERSIONS)), records).collect()
    rows = [(*each.row.asDict(recursive=True).values(), each.schema_id) for each in decoded]
    assert rows[:4] * 20 == rows
    assert list(decoded[0].row.asDict()) == ["n", "added", "in", "gone"]
    assert rows[:4] == [
        (1, None, None, "g", 1),
        (2, "a", None, None, 2),
        (2**40, "", {"x": 5}, None, 3),
        (4, None, None, "", 1),
    ]


FLAT = proto3(
    "message M { int32 n = 1; string s = 2; In in = 3; repeated int32 r = 4; Node node = 5;"
    "repeated Wide wide = 6; } message In { int32 x = 1; string s = 2; }"
    f"message Wide {{ {' '.join(f'int64 c{n} = {n};' for n in range(1, 301))} }} {MESSAGES}"
)


def nested(levels: int) -> bytes:
    """Of a Node: the only child of an only child, and so on."""
    content = b""
    for _ in range(levels):
        length = len(content)
        content = (
            b"\x0a"
            + bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14))
            + content
        )
    length = len(content)
    return (
        b"\x2a" + bytes((length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14)) + content
    )


BIGGEST = b"\xff" * 9 + b"\x01"
TWO_GIGABYTES = b"\xff\xff\xff\xff\x07"
GOOD = framed(b"\x08\x07")
HOSTILE: list[tuple[bytes, str]] = [
    (b"", "empty"),
    (b"\0\0\0\1", "not_confluent_framed"),
    (b"\1\0\0\0\1\0", "not_confluent_framed"),
    (framed(b"", 9), "unknown_schema_id"),
    (framed(b"", -1), "unknown_schema_id"),
    (framed(b"", indexes=b""), "wrong_message_index"),
    (framed(b"", indexes=b"\x02\x02"), "wrong_message_index"),
    (framed(b"", indexes=b"\x01"), "wrong_message_index"),
    (framed(b"", indexes=BIGGEST), "wrong_message_index"),
    (framed(b"", indexes=b"\xfe\xff\xff\xff\x0f" + b"\x02" * 200), "wrong_message_index"),
    (framed(b"\x08"), "malformed_protobuf"),
    (framed(b"\x08" + b"\xff" * 10 + b"\x01"), "malformed_protobuf"),
    (framed(b"\x12\x05ab"), "malformed_protobuf"),
    (framed(b"\x12" + TWO_GIGABYTES + b"ab"), "malformed_protobuf"),
    (framed(b"\x12" + BIGGEST + b"ab"), "malformed_protobuf"),
    (framed(b"\x22" + TWO_GIGABYTES), "malformed_protobuf"),
    (framed(b"\x32" + TWO_GIGABYTES), "malformed_protobuf"),
    (framed(b"\x08\x07\x00\x01"), "malformed_protobuf"),
    (framed(b"\x08\x07\x0f"), "malformed_protobuf"),
    (framed(b"\x08\x07\x0c"), "malformed_protobuf"),
    (framed(b"\x9b\x06" * 10_000), "malformed_protobuf"),
    (framed(nested(10_000)), "malformed_protobuf"),
    (framed(nested(120)), "malformed_protobuf"),
    (framed(b"\x12\x01\xff"), "invalid_utf8"),
    (framed(b"\x1a\x03\x12\x01\xff"), "invalid_utf8"),
    (framed(b"\x32\0" * 500_000), "too_many_values"),
    (framed(b"\x32\x02\x08\1" * 100_000 + b"\x08"), "too_many_values"),
]
FRIENDLY: list[tuple[bytes, int]] = [  # odd, but every reader takes it: the value of `n`
    (GOOD, 7),
    (framed(b""), 0),
    (framed(b"\x08" + BIGGEST), -1),
    (framed(b"\x08\xff\xff\xff\xff\x0f"), -1),
    (framed(b"\x08\x05\xa3\x06\x08\x01\xa4\x06"), 5),
    (framed(b"\x08\x06\xf8\x3f\x01"), 6),
    (framed(b"\x08\x03\x08\x04"), 4),
    (framed(nested(90) + b"\x08\x02"), 2),
    (framed(b"\x08\x09" + b"\x32\0" * 1000), 9),
]


def test_hostile_bytes_have_a_name_and_their_neighbours_land(spark: SparkSession) -> None:
    records: list[bytes | None] = [None]
    for at, (bad, _) in enumerate(HOSTILE):
        records += [bad, FRIENDLY[at % len(FRIENDLY)][0]]
    table = (
        in_spark(spark, Protobuf(subject(FLAT)), records)
        .select("problem", F.col("row.n"), F.col("row").isNull(), F.col("read").isNull())
        .toArrow()
        .to_pylist()
    )
    rows = [tuple(row.values()) for row in table]
    assert rows[0] == (None, None, True, True)
    assert [row[:3] for row in rows[1::2]] == [(name, None, True) for _, name in HOSTILE]
    friendly = [FRIENDLY[at % len(FRIENDLY)][1] for at in range(len(HOSTILE))]
    assert rows[2::2] == [(None, number, False, False) for number in friendly]
    parser = writer(FLAT)
    for record, number in FRIENDLY:
        assert parser.FromString(record[6:]).n == number


def test_what_confluents_serializer_writes_and_registers(spark: SparkSession) -> None:
    text = proto3("message A { message B { int32 x = 1; } } message M { A.B b = 1; string s = 2; }")
    client: Any = SchemaRegistryClient.new_client({"url": "mock://tableflow"})
    message = writer(text)
    serialize = ProtobufSerializer(message, client, {"use.deprecated.format": False})
    context = SerializationContext("orders", MessageField.VALUE)
    records = [serialize(message(s=f"s{n}", b={"x": n}), context) for n in range(3)]
    latest = client.get_latest_version("orders-value")
    registered = client.get_schema(latest.schema_id, fmt="serialized")
    schema = RegisteredSchema(latest.schema_id, 1, registered.schema_str, "PROTOBUF", ())
    rows = in_spark(spark, Protobuf(Subject("orders-value", (schema,)), "M"), records).collect()
    assert [(row.problem, row.row.b.x, row.row.s) for row in rows] == [
        (None, n, f"s{n}") for n in range(3)
    ]


def test_a_key_is_the_same_in_a_version_with_more_fields(spark: SparkSession) -> None:
    old = proto3("message M { int32 n = 1; }")
    new = proto3("message M { int32 n = 1; string more = 2; }")
    records = [
        framed(writer(old)(n=5), 1),
        framed(writer(new)(n=5), 2),
        framed(writer(old)(n=6), 1),
    ]
    first, second, third = in_spark(spark, Protobuf(subject(old, new)), records).collect()
    assert first.identity == second.identity != third.identity


@pytest.mark.parametrize("key_too", [False, True])
def test_the_values_are_decoded_once(
    spark: SparkSession, key_too: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A filter on the problem must not bring the decoder into the plan a second time."""
    protobuf = Protobuf(subject(FLAT))
    schemas = Schemas(protobuf, Protobuf(subject(VERSIONS[0])) if key_too else Raw())
    columns = (
        "partition int, offset bigint, timestamp timestamp, key binary, value binary,"
        " headers array<struct<key: string, value: binary>>"
    )
    records = spark.createDataFrame([(0, 0, None, b"", GOOD, [])], columns)
    decode(records, schemas, table_schema(schemas, "append"), "append").rows.explain()
    plan = capsys.readouterr().out
    assert plan.count("ArrowEvalPython") == 1
    assert plan.count("read(value") == 1
    assert plan.count("read(key") == int(key_too)


def test_a_worker_gets_little_and_imports_little() -> None:
    schemas = Protobuf(subject(everything())).schemas
    sent = cloudpickle.dumps(ProtobufDecoder(schemas.shape, schemas.versions).read)
    assert len(sent) < 50_000
    program = """
import pickle, sys
import pyarrow as pa
read = pickle.load(sys.stdin.buffer)
assert read(pa.array([bytes(6), None])).to_pylist()[1] is None
print(sorted({"pyiceberg", "dagster", "confluent_kafka", "grpc_tools"} & set(sys.modules)))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        input=sent,
        env={**os.environ, "RUST_BACKTRACE": "1"},
        capture_output=True,
        check=True,
    )
    assert result.stdout.decode().strip() == "[]"
