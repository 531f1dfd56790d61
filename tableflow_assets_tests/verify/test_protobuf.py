"""The judge's Protobuf: messages written by google.protobuf, versions, and bytes that are none."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from pyiceberg.types import IcebergType, StructType

from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.protobuf.schema import ProtobufSchemas
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.columns import is_same
from tableflow_assets.verify.protobuf import Protobuf
from tableflow_assets.verify.readers import Unreadable
from tableflow_assets_tests.verify.subjects import framed, subject

TYPES = ("any", "duration", "empty", "timestamp", "wrappers")
IMPORTS = "".join(f'import "google/protobuf/{name}.proto";' for name in TYPES)
HEAD = f'syntax = "proto3"; package p; {IMPORTS} import "google/type/date.proto";'
EVERYTHING = f"""{HEAD} message M {{
    int32 id = 1; optional int32 maybe = 2; uint64 unsigned = 3; double precise = 4;
    enum Size {{ S = 0; L = 2; }} repeated Size sizes = 5; google.protobuf.Timestamp at = 6;
    google.protobuf.Duration took = 7; google.protobuf.StringValue wrapped = 8;
    google.protobuf.Any any = 9; google.protobuf.Empty empty = 10; google.type.Date day = 11;
    map<bool, Inner> inners = 12; M below = 13; bytes raw = 14;
    message Inner {{ sint64 x = 1; }} }}"""


def message(text: str, name: str = "p.M") -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors(text, {})).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()


def type_of(proto_subject: Subject, name: str | None = None) -> IcebergType:
    versions = [(v.schema_id, v.text, dict(v.references)) for v in proto_subject.versions]
    schemas = ProtobufSchemas(proto_subject.name, versions, name)
    return StructType(*schemas.columns(ColumnBuilder(proto_subject.name)))


def typed(proto_subject: Subject, data: bytes, name: str | None = None) -> Any:
    reader = Protobuf(proto_subject, name)
    return reader.as_column(reader.read(data), (), type_of(proto_subject, name))


@pytest.fixture(scope="module")
def everything() -> Subject:
    return subject(EVERYTHING, kind="PROTOBUF")


def test_an_empty_message_has_its_defaults(everything: Subject) -> None:
    absent = ("maybe", "at", "took", "wrapped", "any", "empty", "day", "below")
    assert typed(everything, framed(b"\0")) == dict.fromkeys(absent) | {
        "id": 0,
        "unsigned": Decimal(0),
        "precise": 0.0,
        "sizes": [],
        "inners": {},
        "raw": b"",
    }


def test_values_of_every_kind(everything: Subject) -> None:
    sent = message(EVERYTHING)
    sent.id, sent.maybe, sent.unsigned, sent.raw = -1, 0, 2**64 - 1, b"\xff"
    sent.sizes.extend([0, 2, 7])
    sent.at.seconds, sent.at.nanos = -1, 999_999_999
    sent.took.seconds, sent.took.nanos = -1, -1_999
    sent.wrapped.value = ""
    sent.any.type_url, sent.any.value = "x/no.Such", b"\xff"
    sent.empty.SetInParent()
    sent.day.year, sent.day.month, sent.day.day = 1970, 1, 2
    sent.inners[True].x = -5
    sent.below.below.id = 3
    expected = {
        "id": -1,
        "maybe": 0,
        "unsigned": Decimal(2**64 - 1),
        "precise": 0.0,
        "sizes": ["S", "L", "7"],
        "at": -1,
        "took": -1_000_001,
        "wrapped": "",
        "any": '{"value": "/w==", "@type": "x/no.Such"}',
        "empty": True,
        "day": 1,
        "inners": {True: {"x": -5}},
        "below": '{"below":{"id":3}}',
        "raw": b"\xff",
    }
    row = typed(everything, framed(b"\0" + sent.SerializeToString()))
    assert {name for name in expected if not is_same(row[name], expected[name])} == set()
    assert row.keys() == expected.keys()


def test_an_any_that_nobody_can_open(everything: Subject) -> None:
    for url, content in (("x/no.Such", b"\x08\x01"), ("x/p.M", b"\x08")):
        sent = message(EVERYTHING)
        for place in (sent, sent.below):
            place.any.type_url, place.any.value = url, content
        row = typed(everything, framed(b"\0" + sent.SerializeToString()))
        assert row["any"].value["@type"] == url
        assert is_same(row["below"], "some text")
        assert not is_same(row["below"], None)
    sent.any.value = b"\x08\x01"
    row = typed(everything, framed(b"\0" + sent.SerializeToString()))
    assert is_same(row["any"], '{"@type": "x/p.M", "id": 1}')


def test_what_no_calendar_has_is_none(everything: Subject) -> None:
    sent = message(EVERYTHING)
    sent.at.seconds = 2**40
    sent.day.year = 2024
    row = typed(everything, framed(b"\0" + sent.SerializeToString()))
    assert (row["at"], row["day"]) == (None, None)


def test_versions_and_a_chosen_message() -> None:
    """Renamed to another package, moved in its file, wider, with a field more and one less."""
    first = 'syntax = "proto3"; message M { int32 id = 1; string old = 2; }'
    second = 'syntax = "proto3"; package p; message A {} message M { int64 id = 1; bytes new = 3; }'
    versions = subject(first, second, kind="PROTOBUF")
    old = message(first, "M")
    old.id, old.old = 1, "o"
    new = message(second)
    new.id, new.new = 2**40, b"n"
    reader = Protobuf(versions, "p.M")
    of_first = framed(b"\0" + old.SerializeToString(), 1)
    of_second = framed(b"\x02\x02" + new.SerializeToString(), 2)
    assert typed(versions, of_first, "p.M") == {"id": 1, "new": None, "old": "o"}
    assert typed(versions, of_second, "p.M") == {"id": 2**40, "new": b"n", "old": None}
    assert reader.identity(of_first, None) == of_first[5:]
    assert (reader.schema_id(of_first), reader.schema_id(of_second)) == (1, 2)
    with pytest.raises(Unreadable):
        reader.read(framed(b"\0", 2))  # an A
    with pytest.raises(Unreadable):
        Protobuf(versions).read(of_second)  # without a name, it is the newest's first: A


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="no message index"),
        pytest.param(b"\x02\x08", id="no such message"),
        pytest.param(b"\x01", id="a negative number of indexes"),
        pytest.param(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", id="many indexes"),
        pytest.param(b"\xff" * 20, id="an index without an end"),
        pytest.param(b"\0\x08", id="cut off"),
        pytest.param(b"\0\x72\xff\xff\xff\xff\x0f", id="a huge length"),
        pytest.param(b"\0\x42\x03\x0a\x01\xff", id="no UTF-8"),
        pytest.param(b"\0" + b"\x6b" * 20_000, id="groups inside groups"),
    ],
)
def test_wrong_bytes_are_unreadable(everything: Subject, body: bytes) -> None:
    for ask in (Protobuf(everything).read, lambda d: Protobuf(everything).identity(d, None)):
        with pytest.raises(Unreadable):
            ask(framed(body))


def test_random_bytes_are_read_or_unreadable_and_nothing_else(everything: Subject) -> None:
    dice = random.Random(6)  # noqa: S311
    reader, kind = Protobuf(everything), type_of(everything)
    outcomes = set()
    for _ in range(2000):
        body = b"\0" + bytes(dice.choice((8, 16, 50, 66, 1, 2, 3, 127, 255)) for _ in range(8))
        try:
            reader.as_column(reader.read(framed(body)), (), kind)
            outcomes.add("read")
        except Unreadable:
            outcomes.add("unreadable")
    assert outcomes == {"read", "unreadable"}
