"""Iceberg and Delta over one set of files: every engine reads the same, and no file is there twice."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from pyspark.errors import PySparkException

from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.retention import drop_old_windows
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.lifecycle import mirror_status
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.engines import read_everywhere
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, table_of, verified

WITH_METHOD = PAYMENT | {
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "method", "type": ["null", "string"], "default": None},
    ]
}


def keyed(topic: KafkaTopic, amounts: dict[int, float]) -> None:
    for number, amount in amounts.items():
        topic.send(PAYMENT, [{"id": number, "amount": amount}], key=str(number), partition=0)


def same_everywhere(pipeline: Pipeline, *columns: str) -> list[tuple[object, ...]]:
    """The rows, once all six readers agree, and every data file is in the bucket once."""
    read = read_everywhere(pipeline, *columns, "_kafka.partition", "_kafka.offset")
    expected = read["Iceberg by pyiceberg"]
    assert {name: rows for name, rows in read.items() if rows != expected} == {}
    table = table_of(pipeline)
    assert mirror_status(pipeline.catalog, table).behind == 0
    # All of the table's folder, wherever a copy might lie.
    store = store_at(table.location(), pipeline.catalog.storage)
    contents = Counter(
        store.read(name)
        for folder in ("_data", "data")
        for name in store.names(folder)
        if name.endswith(".parquet") and "/_delta_log/" not in name
    )
    assert set(contents.values()) <= {1}
    live = {task.file.file_path for task in table.scan().plan_files()}
    assert len(live) <= len(contents)
    return [row[: len(columns)] for row in expected]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_after_every_kind_of_change(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode, key="raw", key_buckets=2)
    kafka_topic.register(PAYMENT)
    keyed(kafka_topic, {number: float(number) for number in range(6)})
    pipeline.catch_up()
    keyed(kafka_topic, {number: 10.0 + number for number in range(3)})
    pipeline.catch_up()

    rows = same_everywhere(pipeline, "id", "amount")
    changed = [(0, 10.0), (1, 11.0), (2, 12.0)]
    unchanged = [(3, 3.0), (4, 4.0), (5, 5.0)]
    replaced = [] if mode == "upsert" else [(0, 0.0), (1, 1.0), (2, 2.0)]
    assert sorted(rows) == sorted([*changed, *unchanged, *replaced])

    # A column more, and one that is wider: old files stay as they are.
    kafka_topic.send(
        WITH_METHOD, [{"id": 2**40, "amount": 1.0, "method": "card"}], key="big", partition=0
    )
    pipeline.catch_up()
    rows = same_everywhere(pipeline, "id", "amount", "method")
    assert (2**40, 1.0, "card") in rows
    assert (5, 5.0, None) in rows

    before = len(list(table_of(pipeline).scan().plan_files()))
    compact(pipeline, include_newest=True)
    assert len(list(table_of(pipeline).scan().plan_files())) < before
    assert same_everywhere(pipeline, "id", "amount", "method") == rows
    assert all(result.ok for result in verified(pipeline))


@pytest.mark.parametrize("change", ["DELETE FROM {} WHERE id = 1", "VACUUM {}"])
def test_no_other_writer_may_change_the_delta_table(
    tableflow: Tableflow, kafka_topic: KafkaTopic, change: str
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(3))
    pipeline.catch_up()
    root = delta_root(table_of(pipeline))
    with pytest.raises(PySparkException, match="tableflowMirror"):
        pipeline.spark.sql(change.format(f"delta.`{root}`")).collect()
    assert mirror_status(pipeline.catalog, table_of(pipeline)).behind == 0


def test_after_retention(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    now = datetime.now(UTC)
    pipeline = pipeline_of(tableflow, kafka_topic, retention=timedelta(days=3))
    for days, first in ((10, 0), (0, 10)):
        at = int((now - timedelta(days=days)).timestamp() * 1000)
        kafka_topic.send(PAYMENT, payments(5, first), partition=0, timestamp=at)
    pipeline.catch_up()
    assert len(same_everywhere(pipeline, "id")) == 10

    drop_old_windows(pipeline)
    assert same_everywhere(pipeline, "id") == [(number,) for number in range(10, 15)]
    assert all(result.ok for result in verified(pipeline))
