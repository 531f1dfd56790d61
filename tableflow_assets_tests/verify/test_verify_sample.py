"""The judge, value by value: every type comes out equal, and one changed value is named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import compared, pipeline_of
from tableflow_assets_tests.table import damage


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


POINT = {
    "type": "record",
    "name": "Point",
    "fields": [
        {"name": "x", "type": "float"},
        {"name": "at", "type": ["null", logical("long", "timestamp-millis")], "default": None},
    ],
}
EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "shop.v1",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "precise", "type": "double"},
        {"name": "text", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "four", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "size", "type": {"type": "enum", "name": "Size", "symbols": ["S", "L"]}},
        {"name": "price", "type": logical("bytes", "decimal", precision=38, scale=4)},
        {"name": "day", "type": logical("int", "date")},
        {"name": "millis", "type": logical("long", "timestamp-millis")},
        {"name": "micros", "type": logical("long", "timestamp-micros")},
        {"name": "local", "type": logical("long", "local-timestamp-micros")},
        {"name": "clock", "type": logical("int", "time-millis")},
        {"name": "uid", "type": logical("string", "uuid")},
        {"name": "point", "type": POINT},
        {"name": "again", "type": ["null", "Point"], "default": None},
        {"name": "points", "type": {"type": "array", "items": "Point"}},
        {"name": "days", "type": {"type": "map", "values": ["null", logical("int", "date")]}},
    ],
}


def everything(**changed: Any) -> dict[str, Any]:
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 123000, dt.UTC)
    point = {"x": 0.1, "at": moment}
    return {
        "flag": True,
        "small": -(2**31),
        "large": 2**63 - 1,
        "single": 0.1,
        "precise": float("nan"),
        "text": "Grüße, 世界",
        "raw": b"\x00\xff",
        "four": b"\x01\x02\x03\x04",
        "size": "L",
        "price": Decimal("-1234567890123456789012345678901234.5678"),
        "day": dt.date(1900, 2, 28),
        "millis": moment,
        "micros": moment.replace(microsecond=123456),
        "local": dt.datetime(2024, 2, 29, 1, 2, 3, 4),
        "clock": dt.time(23, 59, 59, 999000),
        "uid": "7f2c1f6e-8a55-4b7c-9f0e-2d1f3c4b5a69",
        "point": point,
        "again": None,
        "points": [point, {"x": float("inf"), "at": None}],
        "days": {"a": dt.date(2024, 1, 1), "b": None},
    } | changed


def differences(pipeline: Pipeline, **options: Any) -> tuple[int, int, list[str]]:
    """Of a sample as large as the table, and so the same as those of every row."""
    results = compared(pipeline, sample=100, **options)
    assert results == compared(pipeline, deep=True, **options)
    assert all(result.ok == (result.differing == 0) for result in results), results
    return (
        sum(result.sampled for result in results),
        sum(result.differing for result in results),
        [text for result in results for text in result.differences],
    )


def test_values_of_every_type_are_equal(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    values = [everything(), everything(again={"x": -0.0, "at": None}, points=[], days={})]
    headers = [("trace", b"\x01"), ("empty", None)]
    kafka_topic.send(EVERYTHING, values, partition=0, key=b"k", headers=headers)
    kafka_topic.send(EVERYTHING, values, partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert differences(pipeline) == (4, 0, [])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("price", "CAST(1.0001 AS DECIMAL(38, 4))"),
        ("micros", "micros + INTERVAL 1 MICROSECOND"),
        ("points", "slice(points, 1, 1)"),
        ("point", "named_struct('x', CAST(0.2 AS FLOAT), 'at', point.at)"),
        ("text", "NULL"),
    ],
)
def test_one_changed_value_is_named(
    tableflow: Tableflow, kafka_topic: KafkaTopic, column: str, value: str
) -> None:
    kafka_topic.send(EVERYTHING, [everything(small=n) for n in range(3)], partition=1)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    damage.run_sql(pipeline, f"UPDATE TABLE SET {column} = {value} WHERE small = 1")  # noqa: S608
    sampled, differing, (text,) = differences(pipeline)
    assert (sampled, differing) == (3, 1)
    assert text.startswith(f"{kafka_topic.name} 1:1 {column}: the log has ")
    assert ", the table " in text


def test_a_changed_place_is_named(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0, key=b"k")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc_history")
    pipeline.catch_up()
    damage.run_sql(pipeline, "UPDATE TABLE SET _kafka.key = X'00' WHERE id = 1")
    assert differences(pipeline)[2] == [
        f"{kafka_topic.name} 0:1 _kafka.key: the log has b'k', the table b'\\x00'"
    ]


def record(**fields: Any) -> dict[str, Any]:
    """Fields by name: a type, or a type and a default."""
    members = [
        {"name": name, "type": kind[0], "default": kind[1]}
        if isinstance(kind, tuple)
        else {"name": name, "type": kind}
        for name, kind in fields.items()
    ]
    return {"type": "record", "name": "Order", "fields": members}


def test_records_of_all_versions_are_what_their_schema_says(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    first = record(id="int", x="float", note=(["null", "string"], None))
    kafka_topic.send(first, [{"id": 1, "x": 0.1, "note": "one"}], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    # Wider, with a field more and one less; then a record of the first version again.
    second = record(id="long", x="double", kind=("string", "plain"))
    kafka_topic.send(second, [{"id": 2**40, "x": 0.1, "kind": "new"}], partition=0)
    kafka_topic.send(first, [{"id": 3, "x": 0.3, "note": "dropped"}], partition=0)
    pipeline.catch_up()
    assert differences(pipeline) == (3, 0, [])
    damage.run_sql(pipeline, "UPDATE TABLE SET kind = 'other' WHERE id = 1")
    assert differences(pipeline)[1] == 1


def test_of_a_changed_row_the_values_after_the_change_count(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    row = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "int"}]}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Row"], "default": None},
            {"name": "op", "type": "string"},
        ],
    }
    changes = [{"before": {"id": n}, "after": {"id": n + 1}, "op": "u"} for n in range(2)]
    for n, change in enumerate(changes):
        kafka_topic.send(envelope, [change], partition=0, key=b"k%d" % n)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc")
    pipeline.catch_up()
    assert differences(pipeline) == (2, 0, [])
    damage.run_sql(pipeline, "UPDATE TABLE SET id = 7 WHERE id = 2")
    assert differences(pipeline)[2] == [f"{kafka_topic.name} 0:1 id: the log has 2, the table 7"]


def test_the_same_seed_samples_the_same_rows(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.send(PAYMENT, payments(40), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    damage.run_sql(pipeline, "UPDATE TABLE SET amount = -1 WHERE id < 20")

    def found(seed: int) -> tuple[int, tuple[str, ...]]:
        result = compared(pipeline, sample=10, seed=seed)[0]
        return (result.sampled, result.differences)

    assert found(1) == found(1)
    assert found(1)[0] == 10
    assert len({found(seed) for seed in range(5)}) > 1
