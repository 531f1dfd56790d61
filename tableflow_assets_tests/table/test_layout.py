"""Layouts on the real stack: what is read, how many files there are, and what a change does."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import Catalog

from tableflow_assets import pipeline as pipelines
from tableflow_assets.base.errors import RebuildFailed, SettingsError
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.rebuild_windows import rebuild_windows
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table import windows
from tableflow_assets.table.windows import rows_added, rows_in_all
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import ids_of, pipeline_of, rows_of, table_of, verified

MONDAY = datetime(2024, 1, 1, 22, 30, tzinfo=UTC)
VISIT = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "city", "type": ["null", "string"], "default": None},
        {
            "name": "guest",
            "type": {
                "type": "record",
                "name": "Guest",
                "fields": [{"name": "born", "type": {"type": "int", "logicalType": "date"}}],
            },
        },
    ],
}
CITIES = ["Aachen", "Aalen", "Bonn", None]


def visits(count: int) -> list[dict[str, Any]]:
    """Every 20 days one, in the next city, by somebody who is a year younger."""
    return [
        {
            "id": number,
            "at": MONDAY + timedelta(days=20 * number),
            "city": CITIES[number % 4],
            "guest": {"born": datetime(1980 + number, 5, 5, tzinfo=UTC).date()},
        }
        for number in range(count)
    ]


def files_of(pipeline: Pipeline, where: str | None = None) -> list[str]:
    """The files that a reader with this filter opens."""
    scan = table_of(pipeline).scan(row_filter=where) if where else table_of(pipeline).scan()
    return [task.file.file_path for task in scan.plan_files()]


def columns_of(pipeline: Pipeline, path: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a file, in the order that they lie in."""
    with table_of(pipeline).io.new_input(path).open() as stream:
        rows = pq.ParquetFile(stream).read().to_pylist()
    return [tuple(row[name] for name in columns) for row in rows]


# --- partitions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "where", "files"),
    [
        (["months(at)"], "at >= '2024-02-01T00:00:00+00:00'", (8, 7)),
        (["years(guest.born)", "truncate(2, city)"], "guest.born < '1982-01-01'", (12, 2)),
        (["truncate(2, city)"], "city = 'Bonn'", (3, 1)),
        (["bucket(4, id)", "city"], "id = 7 AND city IS NULL", (8, 1)),
    ],
)
def test_readers_open_only_the_partitions_that_they_ask_for(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    terms: list[str],
    where: str,
    files: tuple[int, int],
) -> None:
    kafka_topic.send(VISIT, visits(12))
    pipeline = pipeline_of(tableflow, kafka_topic, partition_by=tuple(terms))
    pipeline.catch_up()
    assert len(table_of(pipeline).spec().fields) == len(terms)
    assert (len(files_of(pipeline)), len(files_of(pipeline, where))) == files
    verified(pipeline)


def test_columns_of_any_name_can_be_partitions(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    names = ["a.b", "sp ace, ()", "select", "`"]
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}} | {name: {"type": "string"} for name in names},
    }
    schema_id = kafka_topic.register(schema, kind="JSON")
    values = [{"id": n} | {name: f"{name}{n % 2}" for name in names} for n in range(4)]
    frame = b"\x00" + schema_id.to_bytes(4, "big")
    kafka_topic.send_bytes([frame + json.dumps(value).encode() for value in values])
    terms = ("`a.b`", "bucket(2, `sp ace, ()`)", "truncate(1, select)", "truncate(2, ````)")
    pipeline = pipeline_of(
        tableflow, kafka_topic, partition_by=terms, sort_by=("`sp ace, ()` desc", "```` ")
    )
    assert pipeline.catch_up().rows == 4
    assert pipeline.catch_up().rows == 0
    assert ids_of(pipeline) == [0, 1, 2, 3]
    assert len(files_of(pipeline)) == 2
    verified(pipeline)
    names_of_fields = [field.name for field in table_of(pipeline).spec().fields]
    assert names_of_fields == ["a_b", "sp_ace_____bucket_2", "select_trunc_1", "__trunc_2"]


def test_a_column_that_is_not_there_leaves_no_table_behind(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    pipeline = pipeline_of(tableflow, kafka_topic, partition_by=("days(paid)",))
    with pytest.raises(SettingsError, match="the table has: id, amount"):
        pipeline.catch_up()
    assert pipeline.catalog.find(pipeline.topic.table) is None
    assert pipeline_of(tableflow, kafka_topic).catch_up().rows == 1
    with pytest.raises(SettingsError, match="no column paid"):
        pipeline.catch_up()


def test_a_window_is_replaced_where_it_is_a_set_of_whole_files(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    tuesday = datetime(2024, 1, 2, tzinfo=UTC)
    for number, moment in enumerate((MONDAY, MONDAY + timedelta(days=1))):
        when = int(moment.timestamp() * 1000)
        kafka_topic.send(PAYMENT, payments(4, first=4 * number), partition=0, timestamp=when)
    pipeline = pipeline_of(tableflow, kafka_topic, partition_by=("window", "bucket(2, id)"))
    pipeline.catch_up()
    before = set(files_of(pipeline))
    assert rebuild_windows(pipeline, None, tuesday).rows == 4
    assert len(before & set(files_of(pipeline))) == 2
    verified(pipeline)
    kafka_topic.send(PAYMENT, payments(2, first=8), timestamp=int(MONDAY.timestamp() * 1000))
    without = pipeline_of(tableflow, kafka_topic, partition_by=("bucket(2, id)",))
    without.catch_up()
    with pytest.raises(RebuildFailed, match="leaves `window` out"):
        rebuild_windows(without, None, tuesday)
    assert ids_of(without) == list(range(10))


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("gather_up_to", [200_000, 0])
def test_a_commit_makes_one_file_a_partition(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    gather_up_to: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipelines, "GATHER_UP_TO_RECORDS", gather_up_to)
    for partition in (0, 1):
        for day in (0, 1):
            moment = int((MONDAY + timedelta(days=day)).timestamp() * 1000)
            values = payments(250, first=500 * partition + 250 * day)
            kafka_topic.send(PAYMENT, values, partition=partition, timestamp=moment)
    pipeline = pipeline_of(tableflow, kafka_topic, partition_by=("bucket(16, id)",))
    assert pipeline.catch_up().rows == 1000
    assert len(files_of(pipeline)) == 16
    table = table_of(pipeline)
    head = table.current_snapshot()
    assert head is not None
    of_days = {datetime(2024, 1, day, tzinfo=UTC): 500 for day in (1, 2)}
    assert rows_added(table, "day", [head.snapshot_id]) == of_days
    assert rows_in_all(table, "day") == of_days
    monkeypatch.setattr(windows, "FILES_TO_READ", 15)
    assert rows_in_all(table, "day") is None


def test_a_small_commit_makes_one_file_a_window(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    for partition in (0, 1):
        for day in (0, 1, 2):
            moment = int((MONDAY + timedelta(days=day)).timestamp() * 1000)
            kafka_topic.send(PAYMENT, payments(100), partition=partition, timestamp=moment)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert len(files_of(pipeline)) == 3


@pytest.mark.parametrize("gather_up_to", [200_000, 0])
def test_rows_lie_in_the_order_of_the_settings(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    gather_up_to: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pipelines, "GATHER_UP_TO_RECORDS", gather_up_to)
    values = visits(60)
    random.Random(7).shuffle(values)  # noqa: S311
    kafka_topic.send(VISIT, values)
    pipeline = pipeline_of(tableflow, kafka_topic, sort_by=("city", "guest.born desc"))
    assert pipeline.catch_up().rows == 60
    found_by_file = [columns_of(pipeline, path, "city", "guest") for path in files_of(pipeline)]
    assert max(map(len, found_by_file)) > 1  # one row is always in order
    for file_rows in found_by_file:
        ranked = [(city or "", -guest["born"].toordinal()) for city, guest in file_rows]
        assert ranked == sorted(ranked)
    verified(pipeline)


def test_a_file_ends_at_the_size_of_the_settings(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    note = {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "bytes"}]}
    noise = random.Random(7)  # noqa: S311
    kafka_topic.send(note, [{"text": noise.randbytes(2000)} for _ in range(2500)], partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, target_file_size="1MB")
    pipeline.catch_up()
    assert len(files_of(pipeline)) == 3  # Iceberg looks at the size after every 1,000 rows


# --- another layout for a table that is there ---------------------------------------------------


def test_a_change_of_the_layout_holds_from_then_on_and_rewrites_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    moment = {"timestamp": int(MONDAY.timestamp() * 1000)}
    next_hour = {"timestamp": int((MONDAY + timedelta(hours=1)).timestamp() * 1000)}
    layouts: list[dict[str, Any]] = [
        {},
        {"partition_by": ("bucket(2, id)",), "sort_by": ("id desc",)},
        {"window": "hour"},
        {
            "partition_by": ("window", "bucket(2, id)"),
            "sort_by": ("id",),
            "target_file_size": "1MB",
        },
        {},
    ]
    specs, orders, before = [], [], set[str]()
    for number, options in enumerate(layouts):
        for when in (moment, next_hour):
            kafka_topic.send(PAYMENT, payments(4, first=4 * number), **when)
        pipeline = pipeline_of(tableflow, kafka_topic, **options)
        assert pipeline.catch_up().rows == 8
        table, files = table_of(pipeline), set(files_of(pipeline))
        assert before <= files  # none is rewritten
        before = files
        specs.append(table.spec().spec_id)
        orders.append(table.sort_order().order_id)
        day = datetime(2024, 1, 1, tzinfo=UTC)
        in_all = 8 * (number + 1)
        assert rows_in_all(table, "day") == {day: in_all}
        hours = {day.replace(hour=22): in_all // 2, day.replace(hour=23): in_all // 2}
        assert rows_in_all(table, "hour") == hours
    assert specs == [0, 1, 2, 3, 0]  # the first layout comes back as the same one
    assert orders == [0, 1, 0, 2, 0]
    assert ids_of(pipeline) == sorted([*range(20), *range(20)])
    verified(pipeline)
    # Engines show the fields of all layouts side by side: their names must differ.
    partitions = pipeline.spark.table(f"{pipeline.spark_table}.`partitions`").toArrow().to_pylist()
    assert set(partitions[0]["partition"]) == {"_kafka_window", "id_bucket_2", "_kafka_window_2"}
    assert sum(partition["record_count"] for partition in partitions) == 40


def test_a_table_that_is_laid_out_as_the_settings_say_is_left_alone(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    options = {"partition_by": ("id",), "sort_by": ("amount", "id desc")}
    pipeline = pipeline_of(tableflow, kafka_topic, **options)
    pipeline.plan()
    commits: list[object] = []
    commit = type(pipeline.catalog.iceberg).commit_table

    def counted(catalog: Catalog, *arguments: Any) -> Any:
        commits.append(arguments)
        return commit(catalog, *arguments)

    monkeypatch.setattr(type(pipeline.catalog.iceberg), "commit_table", counted)
    pipeline.plan()
    assert commits == []
    pipeline_of(tableflow, kafka_topic).plan()
    assert len(commits) == 1  # partitions and order at once


def test_a_table_with_keys_stays_in_its_buckets(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    for number, options in enumerate(
        [{"key_buckets": 2}, {"key_buckets": 3, "sort_by": ("amount desc",)}]
    ):
        for key in range(4):
            kafka_topic.send(PAYMENT, payments(1, first=key + number), key=str(key).encode())
        pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", **options)
        pipeline.catch_up()
        (field,) = table_of(pipeline).spec().fields
        assert field.name == "_kafka_key_bucket_2"
    assert sorted(row["amount"] for row in rows_of(pipeline)) == [0.5, 1.0, 1.5, 2.0]
    assert len(table_of(pipeline).sort_order().fields) == 1
    verified(pipeline)


def test_a_run_leaves_alone_what_a_rebuild_into_another_mode_has_laid_out(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), key=b"a", partition=0)
    old = pipeline_of(tableflow, kafka_topic)
    old.catch_up()
    laid_out = []

    def another_run(*_: Any) -> None:
        if not laid_out:
            kafka_topic.send(PAYMENT, payments(1, first=2), key=b"a", partition=0)
            assert old.catch_up().rows == 1
        laid_out.extend(field.name for field in table_of(old).spec().fields)

    new = pipeline_of(tableflow, kafka_topic, mode="upsert")
    rebuild(new, on_commit=another_run)
    assert set(laid_out) == {"_kafka_key_bucket_8"}
    assert ids_of(new) == [2]
    verified(new)
