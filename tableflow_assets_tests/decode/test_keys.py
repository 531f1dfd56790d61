"""Which records are of one row: equal keys have equal hashes, however they were written."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import functions as F

from tableflow_assets.decode.keys import key_hash, key_problem
from tableflow_assets.decode.plain import Raw
from tableflow_assets.decode.schemas import described_by
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import framed

FIRST_ID = 7


def record(*fields: tuple[Any, ...], name: str = "Key") -> dict[str, Any]:
    """Fields as (name, type) or (name, type, default)."""
    keys = ("name", "type", "default")
    described = [dict(zip(keys, field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": described}


ID = record(("id", "int"), ("shop", "string"))


def subject_of(*schemas: Any) -> Serialization:
    """A key subject whose versions have the ids 7, 8, …"""
    versions = (
        RegisteredSchema(FIRST_ID + number, number + 1, json.dumps(schema))
        for number, schema in enumerate(schemas)
    )
    return described_by(Subject("orders-key", tuple(versions)))


def written(schema: Any, key: Any, schema_id: int = FIRST_ID) -> bytes:
    return framed(schema_id, schema if isinstance(schema, dict) else {"type": schema}, key)


def judged(
    tableflow: Tableflow, kind: Serialization, *keys: bytes | None
) -> list[tuple[bytes | None, str | None]]:
    """Hash and problem of each key."""
    rows = [(number, key) for number, key in enumerate(keys)]
    data = tableflow.spark.createDataFrame(rows, "number int, key binary")
    key = F.col("key")
    judged = data.select(
        "number",
        key_hash(key, kind).alias("hash"),
        key_problem(key, kind.parse(key), kind, is_needed=True).alias("problem"),
    )
    results = sorted(judged.collect(), key=lambda row: row["number"])
    return [(row["hash"] and bytes(row["hash"]), row["problem"]) for row in results]


def hashes(tableflow: Tableflow, kind: Serialization, *keys: bytes) -> list[bytes]:
    """Of keys with which nothing is wrong."""
    results = judged(tableflow, kind, *keys)
    assert [problem for _, problem in results] == [None] * len(keys)
    digests = [digest for digest, _ in results if digest is not None]
    assert [len(digest) for digest in digests] == [16] * len(keys)
    return digests


def problems(tableflow: Tableflow, kind: Serialization, *keys: bytes | None) -> list[Any]:
    return [problem for _, problem in judged(tableflow, kind, *keys)]


def test_plain_keys_are_one_when_all_their_bytes_are(tableflow: Tableflow) -> None:
    long = b"k" * 1_000_000
    keys = [b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"a\x00b", b"\xff\xfe", long, long + b"k"]
    first, second = (hashes(tableflow, Raw(), *keys) for _ in range(2))
    assert first == second
    assert len(set(first)) == len(keys)


def test_a_plain_key_that_is_null_is_the_only_bad_one(tableflow: Tableflow) -> None:
    assert problems(tableflow, Raw(), None, b"", b"\x00\x00\x00\x00\x07") == [
        "null_key",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("schema", "keys"),
    [
        ("string", ["", "a", "Zoë", "a\x00b", '{"key":"a"}', "1"]),
        ({"type": "string"}, ["", "a"]),
        ("int", [0, 1, -1]),
        ("bytes", [b"", b"\x00", b"\xff\xfe", b"\xff\xfd"]),
        (ID, [{"id": 1, "shop": "a"}, {"id": 2, "shop": "a"}, {"id": 1, "shop": "b"}]),
        (record(("a", "string"), ("b", "string")), [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}]),
        (record(("a", ["null", "string"])), [{"a": None}, {"a": ""}, {"a": "null"}]),
        (record(("of", ID), name="Outer"), [{"of": {"id": n, "shop": "a"}} for n in range(2)]),
    ],
)
def test_decoded_keys_are_one_when_their_content_is(
    tableflow: Tableflow, schema: Any, keys: list[Any]
) -> None:
    # The same schema under another id, as after an unimportant change such as a `doc`.
    subject = subject_of(schema, schema)
    first, second = (
        hashes(tableflow, subject, *(written(schema, key, schema_id) for key in keys))
        for schema_id in (FIRST_ID, FIRST_ID + 1)
    )
    assert first == second
    assert len(set(first)) == len(keys)


def test_keys_a_microsecond_apart_are_two(tableflow: Tableflow) -> None:
    schema = record(("at", {"type": "long", "logicalType": "timestamp-micros"}))
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    keys = [{"at": moment}, {"at": moment + timedelta(microseconds=1)}]
    assert len(set(hashes(tableflow, subject_of(schema), *(written(schema, k) for k in keys)))) == 2


LATER_VERSIONS = {
    "a nullable field was added": record(
        ("id", "int"), ("shop", "string"), ("region", ["null", "string"], None)
    ),
    "a field with a default was added": record(
        ("id", "int"), ("shop", "string"), ("region", "string", "eu")
    ),
    "fields were moved": record(("shop", "string"), ("id", "int")),
    "a field was widened": record(("id", "long"), ("shop", "string")),
}


@pytest.mark.parametrize("later", LATER_VERSIONS.values(), ids=LATER_VERSIONS.keys())
def test_a_key_stays_the_same_when_a_later_version_is_registered(
    tableflow: Tableflow, later: dict[str, Any]
) -> None:
    """The rows of the table were hashed when only the first version was known."""
    old = written(ID, {"id": 1, "shop": "a"})
    (before,) = hashes(tableflow, subject_of(ID), old)
    assert hashes(tableflow, subject_of(ID, later), old) == [before]


def test_a_key_of_a_later_version_with_the_same_content_is_the_same(tableflow: Tableflow) -> None:
    later = LATER_VERSIONS["a nullable field was added"]
    content = {"id": 1, "shop": "a", "region": None}
    hash_without_region, hash_with_region = hashes(
        tableflow,
        subject_of(ID, later),
        written(later, content, FIRST_ID + 1),
        written(later, content | {"region": "eu"}, FIRST_ID + 1),
    )
    assert hashes(tableflow, subject_of(ID), written(ID, {"id": 1, "shop": "a"})) == [
        hash_without_region
    ]
    assert hash_with_region != hash_without_region


def test_a_key_that_its_schema_cannot_read_says_why(tableflow: Tableflow) -> None:
    good = written(ID, {"id": 1, "shop": "a"})
    bad_text = good[:-1] + b"\xff"
    keys = [good, None, b"", b"plain", good[:4], good[:5], good[:-1], bad_text]
    unknown = good[:4] + b"\x63" + good[5:]
    assert problems(tableflow, subject_of(ID), *keys, unknown) == [
        None,
        "null_key",
        "key_empty",
        "key_not_confluent_framed",
        "key_not_confluent_framed",
        "key_malformed_avro",
        "key_malformed_avro",
        "key_invalid_utf8",
        "key_unknown_schema_id",
    ]


def test_a_string_that_is_no_text_is_no_key(tableflow: Tableflow) -> None:
    keys = [written("string", "ab")[:-2] + text for text in (b"\xff\xfe", b"\xff\xfd", b"ok")]
    classes = problems(tableflow, subject_of("string"), *keys)
    assert classes == ["key_invalid_utf8", "key_invalid_utf8", None]
