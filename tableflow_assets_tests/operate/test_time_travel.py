"""What a reader does with a table's past and layout, in the words of two engines.

History, time travel, partitions, pruning, an added column, and the traces of compaction: first in
DuckDB and Spark; in Trino too, whose SQL is Athena's, where there is one (see `trino_server.py`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import duckdb
import pytest
from pyspark.sql import SparkSession

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import head_of, pipeline_of
from tableflow_assets_tests.support.trino_server import Trino, running_trino

DAY = datetime(2026, 1, 5, 10, tzinfo=UTC)
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "CompletedOrder",
    "fields": [
        {"name": "order_id", "type": "int"},
        {"name": "amount", "type": "double"},
        {"name": "confirmation_code", "type": "string"},
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
WITH_METHOD = ORDER | {
    "fields": [
        *ORDER["fields"],
        {"name": "payment_method", "type": ["null", "string"], "default": None},
    ]
}
DAYS, ORDERS_A_DAY = 4, 5
ROWS = DAYS * ORDERS_A_DAY


def orders(first: int, **more: Any) -> list[dict[str, Any]]:
    """So many a day, one after another."""
    return [
        {
            "order_id": first + number,
            "amount": 10.0,
            "confirmation_code": uuid4().hex * 20,  # so that a file is more than its footer
            "ts": DAY + timedelta(days=number // ORDERS_A_DAY),
            **more,
        }
        for number in range(ROWS)
    ]


@dataclass(frozen=True)
class Orders:
    """The table after each step: its rows doubled with the second, and stayed with the third."""

    pipeline: Pipeline
    first: int
    second: int
    compacted: int
    after_first: datetime

    @property
    def name(self) -> str:
        return self.pipeline.topic.table

    @property
    def in_duckdb(self) -> str:
        return f'lake."{self.pipeline.catalog.namespace}"."{self.name}"'


@pytest.fixture(scope="module")
def completed_orders(session_settings: Settings, tableflow: Tableflow) -> Orders:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    topic = KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}")
    pipeline = pipeline_of(tableflow, topic, partition_by=("days(ts)",))
    topic.send(ORDER, orders(0), partition=0)
    pipeline.catch_up()
    first, after_first = head_of(pipeline), datetime.now(UTC)
    time.sleep(0.01)  # the clock's next tick
    topic.send(WITH_METHOD, orders(ROWS, payment_method="CREDIT_CARD"), partition=0)
    pipeline.catch_up()
    second = head_of(pipeline)
    name = f"{pipeline.catalog.namespace}.{pipeline.topic.table}"
    pipeline.spark.sql(
        f"CALL `{pipeline.spark_catalog}`.system.rewrite_data_files("
        f"table => '{name}', options => map('min-input-files', '2'))"
    ).collect()
    return Orders(pipeline, first, second, head_of(pipeline), after_first)


@pytest.fixture(scope="module")
def lake(completed_orders: Orders) -> Iterator[duckdb.DuckDBPyConnection]:
    catalog = completed_orders.pipeline.catalog
    with closing(connect_duckdb(catalog.connection, catalog.storage)) as connection:
        yield connection


@pytest.fixture
def spark(completed_orders: Orders) -> SparkSession:
    return completed_orders.pipeline.spark


def only_value(rows: list[Any]) -> Any:
    (row,) = rows
    return row[0]


# --- history ----------------------------------------------------------------------------------


def test_duckdb_lists_the_snapshots_and_among_them_the_compaction(
    completed_orders: Orders, lake: duckdb.DuckDBPyConnection
) -> None:
    rows = lake.execute(
        "SELECT snapshot_id, operation FROM iceberg_snapshots(?) ORDER BY sequence_number DESC",
        [completed_orders.in_duckdb],
    ).fetchall()
    assert rows[:3] == [
        (completed_orders.compacted, "replace"),
        (completed_orders.second, "append"),
        (completed_orders.first, "append"),
    ]


def test_spark_lists_the_snapshots_when_each_was_made_current_and_the_compaction(
    completed_orders: Orders, spark: SparkSession
) -> None:
    table = completed_orders.pipeline.spark_table
    rows = spark.sql(
        f"SELECT snapshot_id, operation, summary FROM {table}.snapshots ORDER BY committed_at DESC"  # noqa: S608
    ).collect()
    assert [(row.snapshot_id, row.operation) for row in rows[:2]] == [
        (completed_orders.compacted, "replace"),
        (completed_orders.second, "append"),
    ]
    assert int(rows[0].summary["added-data-files"]) == DAYS
    assert int(rows[0].summary["deleted-data-files"]) == 2 * DAYS
    made_current = spark.sql(
        f"SELECT snapshot_id, parent_id FROM {table}.history ORDER BY made_current_at DESC"  # noqa: S608
    ).collect()
    assert tuple(made_current[0]) == (completed_orders.compacted, completed_orders.second)


# --- time travel ------------------------------------------------------------------------------


def test_duckdb_reads_a_version_and_a_time(
    completed_orders: Orders, lake: duckdb.DuckDBPyConnection
) -> None:
    count = f"SELECT count(*) FROM {completed_orders.name}"  # noqa: S608
    at = completed_orders.after_first.replace(tzinfo=None)
    assert only_value(lake.execute(count).fetchall()) == 2 * ROWS
    version = f"{count} AT (VERSION => {completed_orders.first})"
    assert only_value(lake.execute(version).fetchall()) == ROWS
    moment = f"{count} AT (TIMESTAMP => TIMESTAMP '{at}')"
    assert only_value(lake.execute(moment).fetchall()) == ROWS


def test_spark_reads_a_version_and_a_time(completed_orders: Orders, spark: SparkSession) -> None:
    count = f"SELECT count(*) FROM {completed_orders.pipeline.spark_table}"  # noqa: S608
    at = completed_orders.after_first.replace(tzinfo=None)
    for clause in (
        f"FOR SYSTEM_VERSION AS OF {completed_orders.first}",
        f"VERSION AS OF {completed_orders.first}",
        f"FOR SYSTEM_TIME AS OF TIMESTAMP '{at}'",
        f"TIMESTAMP AS OF '{at}'",
    ):
        assert only_value(spark.sql(f"{count} {clause}").collect()) == ROWS, clause
    assert only_value(spark.sql(count).collect()) == 2 * ROWS


# --- partitions and pruning -------------------------------------------------------------------


def test_spark_lists_the_partitions(completed_orders: Orders, spark: SparkSession) -> None:
    """Without the files of before the compaction: they belong to older snapshots."""
    rows = spark.sql(
        f"SELECT partition.ts_day AS day, record_count, file_count"  # noqa: S608
        f" FROM {completed_orders.pipeline.spark_table}.partitions ORDER BY day"
    ).collect()
    assert [tuple(row) for row in rows] == [
        ((DAY + timedelta(days=n)).date(), 2 * ORDERS_A_DAY, 1) for n in range(DAYS)
    ]


def test_duckdb_lists_the_files_by_partition(
    completed_orders: Orders, lake: duckdb.DuckDBPyConnection
) -> None:
    rows = lake.execute(
        "SELECT regexp_extract(file_path, 'ts_day=([0-9-]+)', 1) AS day, sum(record_count), count(*)"
        " FROM iceberg_metadata(?) WHERE status <> 'DELETED' GROUP BY 1 ORDER BY 1",
        [completed_orders.in_duckdb],
    ).fetchall()
    days = [str((DAY + timedelta(days=n)).date()) for n in range(DAYS)]
    assert rows == [(day, 2 * ORDERS_A_DAY, 1) for day in days]


ONE_DAY = "ts >= '2026-01-05 00:00:00Z' AND ts < '2026-01-06 00:00:00Z'"


def test_duckdb_scans_less_with_the_filter_of_a_day(
    completed_orders: Orders, lake: duckdb.DuckDBPyConnection
) -> None:
    total = f"SELECT count(*), sum(amount) FROM {completed_orders.name}"  # noqa: S608

    def scanned(query: str) -> tuple[int, float]:
        """Files, and KiB that came over the wire."""
        ((_, plan),) = lake.execute(f"EXPLAIN ANALYZE {query}").fetchall()
        files = re.search(r"Total Files Read: (\d+)", plan)
        traffic = re.search(r"in: ([\d.]+) (bytes|KiB|MiB)", plan)
        assert files, plan
        assert traffic, plan
        unit = {"bytes": 1 / 1024, "KiB": 1, "MiB": 1024}[traffic[2]]
        return int(files[1]), float(traffic[1]) * unit

    pruned = f"{total} WHERE {ONE_DAY}"
    assert lake.execute(pruned).fetchall() == [(2 * ORDERS_A_DAY, 20.0 * ORDERS_A_DAY)]
    files, size = scanned(pruned)
    all_files, all_size = scanned(total)
    assert (files, all_files) == (1, DAYS)
    assert size < all_size


def test_spark_scans_less_with_the_filter_of_a_day(
    completed_orders: Orders, spark: SparkSession
) -> None:
    total = f"SELECT sum(amount) FROM {completed_orders.pipeline.spark_table}"  # noqa: S608

    def scanned(query: str) -> tuple[int, int]:
        """Files and their bytes, as Iceberg's planning reports them."""
        answer = spark.sql(query)
        answer.collect()
        assert answer.executionInfo is not None
        assert answer.executionInfo.metrics is not None
        _, plan = answer.executionInfo.metrics.extract_graph()
        values = {metric.name: metric.value for node in plan.values() for metric in node.metrics}
        return values["resultDataFiles"], values["totalDataFileSize"]

    files, size = scanned(f"{total} WHERE {ONE_DAY}")
    all_files, all_size = scanned(total)
    assert (files, all_files) == (1, DAYS)
    assert size < all_size / 2


# --- an added column --------------------------------------------------------------------------


def test_old_rows_have_no_payment_method_in_either_engine(
    completed_orders: Orders, lake: duckdb.DuckDBPyConnection, spark: SparkSession
) -> None:
    by_method = (
        "SELECT payment_method, count(*), sum(amount) FROM {} GROUP BY 1 ORDER BY 1 NULLS FIRST"
    )
    expected = [(None, ROWS, 10.0 * ROWS), ("CREDIT_CARD", ROWS, 10.0 * ROWS)]
    assert lake.execute(by_method.format(completed_orders.name)).fetchall() == expected
    in_spark = spark.sql(by_method.format(completed_orders.pipeline.spark_table)).collect()
    assert [tuple(row) for row in in_spark] == expected


# --- Trino, with the lab's own statements -----------------------------------------------------


@pytest.fixture(scope="module")
def trino(completed_orders: Orders, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trino]:
    catalog = completed_orders.pipeline.catalog
    folder = tmp_path_factory.mktemp("trino")
    with running_trino(catalog.connection, catalog.storage, folder) as running:
        yield running


@pytest.mark.trino
def test_trino_runs_the_labs_statements(completed_orders: Orders, trino: Trino) -> None:
    orders, count = completed_orders, "SELECT count(*) AS record_count FROM"
    table = f'"lake"."{orders.pipeline.catalog.namespace}"."{orders.name}"'
    system = f'"lake"."{orders.pipeline.catalog.namespace}"."{orders.name}$'
    snapshots = trino.ask(
        f'SELECT snapshot_id, operation FROM {system}snapshots" ORDER BY committed_at DESC'  # noqa: S608
    )
    assert snapshots[:2] == [[orders.compacted, "replace"], [orders.second, "append"]]
    history = trino.ask(
        f'SELECT snapshot_id, parent_id FROM {system}history" ORDER BY made_current_at DESC'  # noqa: S608
    )
    assert history[0] == [orders.compacted, orders.second]
    assert trino.ask(f"{count} {table} FOR VERSION AS OF {orders.first}") == [[ROWS]]
    at = orders.after_first.strftime("%Y-%m-%d %H:%M:%S.%f")
    assert trino.ask(f"{count} {table} FOR TIMESTAMP AS OF TIMESTAMP '{at} UTC'") == [[ROWS]]
    partitions = trino.ask(
        f'SELECT partition.ts_day, record_count, file_count FROM {system}partitions" ORDER BY 1'  # noqa: S608
    )
    assert partitions[0] == ["2026-01-05", 2 * ORDERS_A_DAY, 1]
    pruned = (
        f"SELECT count(*), sum(amount) FROM {table} WHERE date_trunc('day', ts) = DATE '2026-01-05'"  # noqa: S608
    )
    assert trino.ask(pruned) == [[2 * ORDERS_A_DAY, 20.0 * ORDERS_A_DAY]]
    by_day = trino.bytes_scanned()
    trino.ask(f"SELECT count(*), sum(amount) FROM {table}")  # noqa: S608
    assert by_day < trino.bytes_scanned()
    by_method = f"SELECT payment_method, count(*) FROM {table} GROUP BY 1 ORDER BY 1"  # noqa: S608
    assert trino.ask(by_method) == [["CREDIT_CARD", ROWS], [None, ROWS]]
