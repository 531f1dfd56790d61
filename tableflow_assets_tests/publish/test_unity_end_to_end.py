"""A real table, listed in the stub of Unity Catalog: what its clients are told leads to the rows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.publish.publish import publish
from tableflow_assets.publish.source import source_of
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.publish.worlds.unity import (
    DatabricksWorld,
    OpenSourceWorld,
    UnityWorld,
)
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic
from tableflow_assets_tests.support.tables import pipeline_of, rows_of, table_of

WITH_METHOD = PAYMENT | {
    "fields": [
        {"name": "id", "type": "int", "doc": "The payment's number"},
        {"name": "amount", "type": ["null", "double"], "default": None},
        {"name": "method", "type": ["null", "string"], "default": None, "doc": "card, cash"},
    ]
}


@pytest.fixture(params=[DatabricksWorld, OpenSourceWorld], ids=lambda kind: str(kind.flavor))
def world(request: pytest.FixtureRequest) -> Iterator[UnityWorld]:
    with request.param() as world:
        yield world


def location_told(world: UnityWorld, full_name: str) -> str:
    """As a reader's own client is told it, set up in the way that its makers document."""
    if isinstance(world, DatabricksWorld):
        from databricks.sdk import WorkspaceClient

        world.stub.add_token("a-reader-s-token", world.reader)
        workspace = WorkspaceClient(host=world.stub.address, token="a-reader-s-token")
        return str(workspace.tables.get(full_name).storage_location)

    from unitycatalog.client import ApiClient, Configuration, TablesApi

    world.stub.add_token("a-reader-s-token", world.reader)

    async def ask() -> str:
        address = Configuration(host=f"{world.stub.address}/api/2.1/unity-catalog")
        async with ApiClient(address, "Authorization", "Bearer a-reader-s-token") as client:
            return str((await TablesApi(client).get_table(full_name)).storage_location)

    return asyncio.run(ask())


def read_at(location: str, pipeline: Pipeline, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    names = ", ".join(columns)
    storage = pipeline.catalog.storage
    table = DeltaTable(location, storage_options=storage_options(storage))
    by_delta_rs = QueryBuilder().register("t", table).execute(f"SELECT {names} FROM t")  # noqa: S608
    duckdb = connect_duckdb(pipeline.catalog.connection, storage)
    return {
        "delta-rs": sorted(
            tuple(row[column] for column in columns)
            for row in pa.table(by_delta_rs.read_all()).to_pylist()
        ),
        "DuckDB": sorted(
            duckdb.execute(f"SELECT {names} FROM delta_scan('{location}')").fetchall()  # noqa: S608
        ),
    }


def expected(pipeline: Pipeline, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    rows = sorted(tuple(row[column] for column in columns) for row in rows_of(pipeline))
    return {"delta-rs": rows, "DuckDB": rows}


def test_readers_find_the_rows_where_unity_catalog_says(
    tableflow: Tableflow, kafka_topic: KafkaTopic, world: UnityWorld
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, [{"id": number, "amount": number / 2} for number in range(20)])
    pipeline.catch_up()
    world.stub.external_locations = [table_of(pipeline).location()]
    catalog = world.catalog()

    def load() -> Any:
        return source_of(pipeline.catalog, table_of(pipeline), "Payments.")

    assert publish(catalog, load) == "created"
    location = location_told(world, catalog.listing_for(load()).name)
    assert len(expected(pipeline, "id")["DuckDB"]) == 20
    assert read_at(location, pipeline, "id", "amount") == expected(pipeline, "id", "amount")

    # A commit is seen at the same place, before anybody has told the catalog of it.
    kafka_topic.send(PAYMENT, [{"id": 100, "amount": 1.5}])
    pipeline.catch_up()
    assert (100,) in read_at(location, pipeline, "id")["DuckDB"]
    assert read_at(location, pipeline, "id") == expected(pipeline, "id")
    assert publish(catalog, load) == "nothing"

    kafka_topic.send(WITH_METHOD, [{"id": 101, "amount": None, "method": "card"}])
    pipeline.catch_up()
    assert publish(catalog, load) == "replaced"
    listing = catalog.find(load())
    assert listing == catalog.listing_for(load())
    assert ("method", "string", "card, cash") in [
        (column.name, column.type, column.comment) for column in catalog.listing_for(load()).columns
    ]
    location = location_told(world, catalog.listing_for(load()).name)
    assert read_at(location, pipeline, "id", "method") == expected(pipeline, "id", "method")


def test_what_databricks_would_read_from_the_log_is_what_is_wanted(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    """`SYNC METADATA` takes the columns from the real log: the entry is then as it should be."""
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, [{"id": 1, "amount": 1.0}])
    pipeline.catch_up()

    def load() -> Any:
        return source_of(pipeline.catalog, table_of(pipeline))

    with DatabricksWorld() as world:
        world.stub.external_locations = [table_of(pipeline).location()]
        world.stub.warehouses.add("w1")
        catalog = world.of(world.writer, warehouse_id="w1")
        publish(catalog, load)
        (before,) = world.stub.tables.values()
        kafka_topic.send(WITH_METHOD, [{"id": 2, "amount": 2.0, "method": "cash"}])
        pipeline.catch_up()
        root = str(load().delta_location)
        log = DeltaTable(root, storage_options=storage_options(pipeline.catalog.storage))
        world.stub.delta_logs[root] = [
            {
                "name": field["name"],
                "type_json": json.dumps(field),
                "comment": field["metadata"].get("comment"),
                "position": position,
            }
            for position, field in enumerate(json.loads(log.schema().to_json())["fields"])
        ]
        assert publish(catalog, load) == "replaced"
        assert catalog.find(load()) == catalog.listing_for(load())
        (after,) = world.stub.tables.values()
        assert after["table_id"] == before["table_id"]
