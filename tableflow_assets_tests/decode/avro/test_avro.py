"""Avro into rows, through the whole path: versions side by side, and values that are no Avro."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tableflow_assets.base.errors import Suspended
from tableflow_assets.stack.spark import SparkServer
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    compared,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)


def record(*fields: tuple[Any, ...], name: str = "Value") -> dict[str, Any]:
    """Fields as (name, type) or (name, type, default)."""
    keys = ("name", "type", "default")
    described = [dict(zip(keys, field, strict=False)) for field in fields]
    return {"type": "record", "name": name, "fields": described}


def values_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "_kafka"} for row in rows]


# --- every type -------------------------------------------------------------------------------

MOMENT = datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)
ITEM = record(("sku", "string"), ("count", "int"), name="Item")


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


# Avro type, the value as it is sent, the value as it stands in the table
EVERY_TYPE: dict[str, tuple[Any, Any, Any]] = {
    "boolean": ("boolean", True, True),
    "int": ("int", -(2**31), -(2**31)),
    "long": ("long", 2**63 - 1, 2**63 - 1),
    "float": ("float", 0.5, 0.5),
    "double": ("double", 0.1, 0.1),
    "string": ("string", "Zoë 🚂", "Zoë 🚂"),
    "enum": ({"type": "enum", "name": "Suit", "symbols": ["A", "B"]}, "B", "B"),
    "uuid": (logical("string", "uuid"), UUID(int=7), str(UUID(int=7))),
    "bytes": ("bytes", b"\x00\xff", b"\x00\xff"),
    "fixed": ({"type": "fixed", "name": "Two", "size": 2}, b"\x00\xff", b"\x00\xff"),
    "decimal": (
        logical("bytes", "decimal", precision=9, scale=2),
        Decimal("-1234567.89"),
        Decimal("-1234567.89"),
    ),
    "date": (logical("int", "date"), date(1969, 12, 31), date(1969, 12, 31)),
    "millis": (logical("long", "timestamp-millis"), MOMENT, MOMENT),
    "micros": (
        logical("long", "timestamp-micros"),
        MOMENT + timedelta(microseconds=1),
        MOMENT + timedelta(microseconds=1),
    ),
    "local_millis": (
        logical("long", "local-timestamp-millis"),
        MOMENT.replace(tzinfo=None),
        MOMENT.replace(tzinfo=None),
    ),
    "time_millis": (logical("int", "time-millis"), time(1), 3_600_000),
    "array": ({"type": "array", "items": ["null", "int"]}, [1, None], [1, None]),
    "map": ({"type": "map", "values": "long"}, {"a": 1}, [("a", 1)]),
    "struct": (ITEM, {"sku": "x", "count": 2}, {"sku": "x", "count": 2}),
    "structs": (
        {"type": "array", "items": "Item"},
        [{"sku": "", "count": 0}],
        [{"sku": "", "count": 0}],
    ),
    "nullable": (["null", "string"], None, None),
}
ALL_COLUMNS = record(("id", "int"), *((name, kind) for name, (kind, _, _) in EVERY_TYPE.items()))


def test_every_type_lands_with_its_value_and_is_null_after_it_was_dropped(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    sent = {name: value for name, (_, value, _) in EVERY_TYPE.items()}
    landed = {name: value for name, (_, _, value) in EVERY_TYPE.items()}
    kafka_topic.send(ALL_COLUMNS, [{"id": 1} | sent], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 1
    assert values_of(rows_of(pipeline)) == [{"id": 1} | landed]
    kafka_topic.send(record(("id", "int")), [{"id": 2}], partition=0)
    assert pipeline.catch_up().rows == 1
    # Asked of Spark: pyiceberg 0.12 shows a list of structs that is NULL as an empty one.
    (dropped,) = pipeline.spark.table(pipeline.spark_table).where("id = 2").collect()
    assert values_of([dropped.asDict()]) == [{"id": 2} | dict.fromkeys(EVERY_TYPE)]
    verified(pipeline)


def test_a_field_that_could_only_be_null_gets_the_column_of_its_later_type(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    inner = record(("n", "null"), ("a", "int"), name="Inner")
    nulls = {"type": "array", "items": "null"}
    first = record(("n", "null"), ("inner", inner), ("l", nulls), ("u", ["int", "null", "string"]))
    then = record(
        ("n", ["null", "long"], None), ("inner", record(("n", "string"), name="Inner"), {"n": ""})
    )
    key_id = kafka_topic.register("null", f"{kafka_topic.name}-key")
    key = b"\0" + key_id.to_bytes(4, "big")
    sent = {"n": None, "inner": {"n": None, "a": 1}, "l": [None, None], "u": "x"}
    kafka_topic.send(first, [sent], partition=0, key=key)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().dead_letters == 0
    u = {"member_int": None, "member_string": "x"}
    [row] = rows_of(pipeline)
    assert "decoded_key" not in row.pop("_kafka")
    assert row == {"inner": {"a": 1}, "l": [None, None], "u": u}
    kafka_topic.accept_any_schema()
    kafka_topic.send(then, [{"n": 2, "inner": {"n": "y"}}], partition=0)
    assert pipeline.catch_up().dead_letters == 0
    assert values_of(rows_of(pipeline)) == [
        {"inner": {"a": 1, "n": None}, "l": [None, None], "u": u, "n": None},
        {"inner": {"a": None, "n": "y"}, "l": None, "u": None, "n": 2},
    ]
    assert all(result.ok for result in compared(pipeline, deep=True))


def test_fields_may_have_the_names_that_kafka_gives_its_own(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    names = ("value", "key", "topic", "partition", "offset", "timestamp", "headers", "schema_id")
    names += ("decoded", "problem")
    value = {name: f"the {name}" for name in names}
    kafka_topic.send(record(*((name, "string") for name in names)), [value], partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert values_of(rows_of(pipeline)) == [value]


# --- versions ---------------------------------------------------------------------------------


def test_versions_mixed_in_one_batch_are_each_read_with_their_own_schema(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """Fields in another order, and one more: read with the wrong version, all would be garbage."""
    versions = [
        record(("id", "int"), ("city", "string")),
        record(("city", "string"), ("id", "int"), ("stars", ["null", "int"], None)),
        record(("stars", ["null", "int"], None), ("id", "long"), ("city", "string")),
    ]
    for number in range(9):
        value = {"id": number, "city": f"city {number}", "stars": number}
        kafka_topic.send(versions[number % 3], [value], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 9
    rows = rows_of(pipeline)
    assert [(row["id"], row["city"], row["stars"]) for row in rows] == [
        (number, f"city {number}", None if number % 3 == 0 else number) for number in range(9)
    ]
    ids = [kafka_topic.register(version) for version in versions]
    assert [row["_kafka"]["schema_id"] for row in rows] == ids * 3


def test_an_added_field_is_a_new_column_that_is_null_in_old_rows(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(record(("id", "int")), [{"id": 1}], partition=0)
    pipeline.catch_up()
    wider = record(("note", ["null", "string"], None), ("id", "int"))
    kafka_topic.send(wider, [{"id": 2, "note": "new"}], partition=0)
    pipeline.catch_up()
    assert values_of(rows_of(pipeline)) == [{"id": 1, "note": None}, {"id": 2, "note": "new"}]
    assert pipeline.catch_up().rows == 0


def test_the_default_of_an_added_field_is_not_what_old_records_say(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """Whether they were read before or after it was added."""
    kafka_topic.send(record(("id", "int")), [{"id": 1}], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    kafka_topic.send(record(("id", "int")), [{"id": 2}], partition=0)
    kafka_topic.register(record(("id", "int"), ("kind", "string", "plain")))
    pipeline.catch_up()
    assert values_of(rows_of(pipeline)) == [{"id": 1, "kind": None}, {"id": 2, "kind": None}]


def test_a_widened_field_widens_its_column_and_old_values_stay(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(record(("id", "int"), ("x", "float")), [{"id": 1, "x": 0.5}], partition=0)
    pipeline.catch_up()
    wider = record(("id", "long"), ("x", "double"))
    kafka_topic.send(wider, [{"id": 2**40, "x": 0.1}], partition=0)
    pipeline.catch_up()
    schema = table_of(pipeline).schema()
    assert [str(schema.find_type(name)) for name in ("id", "x")] == ["long", "double"]
    assert values_of(rows_of(pipeline)) == [{"id": 1, "x": 0.5}, {"id": 2**40, "x": 0.1}]


def test_a_dropped_field_keeps_its_column_and_is_null_in_records_that_lack_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    pipeline.catch_up()
    kafka_topic.send(record(("id", "int"), name="Payment"), [{"id": 1}], partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)  # a producer not yet updated
    pipeline.catch_up()
    assert values_of(rows_of(pipeline)) == [
        {"id": 0, "amount": 0.0},
        {"id": 1, "amount": None},
        {"id": 2, "amount": 1.0},
    ]


A, B, C = (("a", "int"), ("b", ["null", "string"], None), ("c", ["null", "int"], None))


@pytest.mark.parametrize(
    ("nested", "value", "landed"),
    [
        pytest.param(
            record(C, A, B, name="Nested"),
            {"a": 2, "b": "y", "c": 3},
            {"a": 2, "b": "y", "c": 3},
            id="added",
        ),
        pytest.param(
            record(("a", "long"), B, name="Nested"),
            {"a": 2**40, "b": "y"},
            {"a": 2**40, "b": "y"},
            id="widened",
        ),
        pytest.param(record(A, name="Nested"), {"a": 2}, {"a": 2, "b": None}, id="dropped"),
    ],
)
def test_fields_inside_a_record_change_like_those_at_the_top(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    nested: dict[str, Any],
    value: dict[str, Any],
    landed: dict[str, Any],
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(
        record(("n", record(A, B, name="Nested"))), [{"n": {"a": 1, "b": "x"}}], partition=0
    )
    pipeline.catch_up()
    kafka_topic.send(record(("n", nested)), [{"n": value}], partition=0)
    assert pipeline.catch_up().rows == 1
    first = dict.fromkeys(landed) | {"a": 1, "b": "x"}
    assert values_of(rows_of(pipeline)) == [{"n": first}, {"n": landed}]
    verified(pipeline)


@pytest.mark.parametrize(
    "amount", ["string", record(("sum", "double"), name="Sum"), {"type": "array", "items": "int"}]
)
def test_a_version_that_does_not_fit_the_table_stops_the_path_and_changes_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic, amount: Any
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(2))
    pipeline.catch_up()
    head, schema = head_of(pipeline), table_of(pipeline).schema()
    kafka_topic.accept_any_schema()
    kafka_topic.register(record(("extra", "int"), ("id", "int"), ("amount", amount)))
    kafka_topic.send(PAYMENT, payments(1, first=2))
    with pytest.raises(Suspended, match=pipeline.topic.table):
        pipeline.catch_up()
    assert head_of(pipeline) == head
    assert table_of(pipeline).schema() == schema
    assert branches_of(pipeline) == []
    verified(pipeline)


# Two columns that differ only in case would make the table unreadable to Spark.
def test_a_field_renamed_only_in_case_does_not_fit_the_table(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(record(("id", "int"), ("note", "string")), [{"id": 1, "note": "a"}])
    pipeline.catch_up()
    schema = table_of(pipeline).schema()
    kafka_topic.send(record(("id", "int"), ("Note", "string", "")), [{"id": 2, "Note": "b"}])
    with pytest.raises(Suspended, match="Note"):
        pipeline.catch_up()
    assert table_of(pipeline).schema() == schema


# A registry in FORWARD mode lets producers add fields without a default.
@pytest.mark.parametrize("is_nested", [False, True])
def test_an_added_field_without_a_default_is_null_in_records_of_the_old_version(
    tableflow: Tableflow, kafka_topic: KafkaTopic, is_nested: bool
) -> None:
    def version(*fields: tuple[Any, ...]) -> dict[str, Any]:
        return record(("n", record(*fields, name="N"))) if is_nested else record(*fields)

    def value(**fields: Any) -> dict[str, Any]:
        return {"n": fields} if is_nested else fields

    kafka_topic.send(version(("id", "int")), [value(id=1)], partition=0)
    kafka_topic.accept_any_schema()
    kafka_topic.send(version(("id", "int"), ("x", "int")), [value(id=2, x=5)], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (2, 0)
    assert values_of(rows_of(pipeline)) == [value(id=1, x=None), value(id=2, x=5)]


# --- values that are no Avro ------------------------------------------------------------------


def bad_values(schema_id: int) -> dict[bytes | None, str]:
    """Each with the error that it must get."""
    header = b"\x00" + schema_id.to_bytes(4, "big")
    whole = framed(schema_id, PAYMENT, {"id": 1000, "amount": 1.5})
    return {
        None: "null_value",
        b"": "empty",
        header[:4]: "not_confluent_framed",
        b"\x01" + whole[1:]: "not_confluent_framed",
        b'{"id": 1}': "not_confluent_framed",
        b"\x00\x7f\xff\xff\xff" + whole[5:]: "unknown_schema_id",
        header: "malformed_avro",
        whole[:-1]: "malformed_avro",
        whole + b"\x00": "malformed_avro",
        header + b"\x02\x08": "malformed_avro",  # there is no fifth branch in the union
        header + b"\xff" * 12: "malformed_avro",
    }


def test_values_that_cannot_be_decoded_become_dead_letters_beside_their_neighbours(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    bad = bad_values(kafka_topic.register(PAYMENT))
    for number, value in enumerate(bad):
        kafka_topic.send(PAYMENT, payments(1, number), partition=0)
        kafka_topic.send_bytes([value], partition=0, key=b"k")
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up(run_id="first")
    assert (progress.rows, progress.dead_letters, progress.skipped) == (len(bad), len(bad), 0)
    assert ids_of(pipeline) == list(range(len(bad)))
    letters = letters_of(pipeline)
    assert {letter["value"]: letter["error"] for letter in letters} == bad
    assert [letter["offset"] for letter in letters] == list(range(1, 2 * len(bad), 2))
    assert {(letter["key"], letter["run_id"]) for letter in letters} == {(b"k", "first")}
    assert [(r.expected, r.rows, r.dead_letters) for r in verified(pipeline)] == [
        (2 * len(bad), len(bad), len(bad)),
        (0, 0, 0),
    ]


def test_dead_letters_that_come_again_after_a_failed_commit_are_kept_once(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    kafka_topic.send_bytes([b"bad", b"worse"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    with monkeypatch.context() as failing:
        failing.setattr("tableflow_assets.table.commit.commit_branch", _fail)
        with pytest.raises(RuntimeError, match="just before"):
            pipeline.catch_up(run_id="first")
    assert len(letters_of(pipeline)) == 2
    assert [(r.expected, r.dead_letters) for r in verified(pipeline)] == [(0, 0), (0, 0)]
    progress = pipeline.catch_up(run_id="second")
    assert (progress.rows, progress.dead_letters) == (1, 2)
    assert pipeline.catch_up().dead_letters == 0
    letters = letters_of(pipeline)
    assert Counter(letter["value"] for letter in letters) == {b"bad": 1, b"worse": 1}
    assert {letter["run_id"] for letter in letters} == {"first"}
    assert all(letter["last_seen"] > letter["first_seen"] for letter in letters)
    assert [(r.expected, r.dead_letters) for r in verified(pipeline)] == [(3, 2), (0, 0)]


def _fail(*_: object) -> None:
    raise RuntimeError("just before the publication")


# Avro makes room for as much as a value claims to need: without limits, one such record ends the
# Spark server by OutOfMemoryError, in every run again.
@pytest.mark.parametrize("kind", ["string", "bytes", {"type": "array", "items": "int"}])
def test_a_value_that_claims_to_be_huge_becomes_a_dead_letter(
    stack: Stack, tableflow: Tableflow, kafka_topic: KafkaTopic, kind: Any
) -> None:
    # Looked at first: without limits this test would take the Spark of all tests after it down.
    options = SparkServer(stack.state).command()
    assert any("org.apache.avro.limits" in option for option in options)
    schema_id = kafka_topic.register(record(("x", kind)))
    header = b"\x00" + schema_id.to_bytes(4, "big")
    two_billion = b"\x80\xd0\xac\xf3\x0e"  # as Avro writes a length
    kafka_topic.send_bytes([header + two_billion + b"abc", header + b"\x00"], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (1, 1)
    assert [letter["error"] for letter in letters_of(pipeline)] == ["malformed_avro"]


# Spark takes any bytes for a string. Every other engine would fail on the file that has them.
@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("string", b"", b""),
        (["null", "string"], b"\x02", b""),
        (record(("s", "string"), name="Inner"), b"", b""),
        ({"type": "array", "items": "string"}, b"\x02", b"\x00"),
        ({"type": "map", "values": "int"}, b"\x02", b"\x00\x00"),
        ({"type": "map", "values": "string"}, b"\x02\x02k", b"\x00"),
    ],
)
def test_a_string_that_is_no_text_becomes_a_dead_letter(
    tableflow: Tableflow, kafka_topic: KafkaTopic, kind: Any, before: bytes, after: bytes
) -> None:
    """``before`` and ``after``: what Avro writes around the string in a value of this kind."""
    schema_id = kafka_topic.register(record(("x", kind)))
    header = b"\x00" + schema_id.to_bytes(4, "big")
    texts = [header + before + text + after for text in (b"\x04\xff\xfe", b"\x04ok")]
    kafka_topic.send_bytes(texts, partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (1, 1)
    assert [letter["value"] for letter in letters_of(pipeline)] == [texts[0]]
    assert [letter["error"] for letter in letters_of(pipeline)] == ["invalid_utf8"]
    assert "ok" in str(values_of(rows_of(pipeline)))


def test_bad_records_can_be_skipped(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    kafka_topic.send_bytes([b"bad"], partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, bad_records="skip")
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters, progress.skipped) == (3, 0, 1)
    assert ids_of(pipeline) == [0, 1, 2]
    assert pipeline.catch_up().skipped == 0
    (place,) = letters_of(pipeline)  # without content: only what verify must know
    assert (place["partition"], place["offset"], place["skipped"]) == (0, 2, True)
    assert (place["key"], place["value"], place["headers"]) == (None, None, None)


def test_a_record_whose_fields_are_all_null_is_no_dead_letter(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    schema = record(("a", ["null", "int"], None), ("b", ["null", "string"], None))
    kafka_topic.send(schema, [{"a": None, "b": None}], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    progress = pipeline.catch_up()
    assert (progress.rows, progress.dead_letters) == (1, 0)
    assert values_of(rows_of(pipeline)) == [{"a": None, "b": None}]
