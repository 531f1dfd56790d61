"""A real table, listed in Glue (moto): what Glue's own clients are told leads to its rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.publish.base import SourceTable
from tableflow_assets.publish.publish import publish
from tableflow_assets.publish.source import source_of
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.publish.worlds.moto_with_glues_lock import REGION
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, rows_of, table_of
from tableflow_assets_tests.support.trino_server import running_trino

Rows = list[tuple[Any, ...]]
NESTED = {
    "type": "record",
    "name": "Payment",
    "fields": [
        *PAYMENT["fields"],
        {
            "name": "Lines",
            "type": [
                "null",
                {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Line",
                        "fields": [{"name": "Sku", "type": "string"}],
                    },
                },
            ],
            "default": None,
            "doc": "What was paid for",
        },
    ],
}


@pytest.fixture
def world() -> Iterator[GlueWorld]:
    with GlueWorld() as running:
        yield running


def source(pipeline: Pipeline) -> SourceTable:
    return source_of(pipeline.catalog, table_of(pipeline))


def expected(pipeline: Pipeline) -> Rows:
    return sorted((row["id"], row["amount"]) for row in rows_of(pipeline))


def quoted(table: str, mark: str) -> str:
    """The id of a Kafka cluster may begin with a digit."""
    return ".".join(f"{mark}{part}{mark}" for part in table.split("."))


def by_pyiceberg(world: GlueWorld, storage: S3Connection, table: str) -> Rows:
    key, secret = world.admin
    glue = load_catalog(
        "athena",
        **{
            "type": "glue",
            "glue.endpoint": world.server.address,
            "glue.region": REGION,
            "glue.access-key-id": key,
            "glue.secret-access-key": secret,
            "s3.endpoint": str(storage.endpoint),
            "s3.access-key-id": str(storage.access_key),
            "s3.secret-access-key": str(storage.secret_key),
            "s3.region": storage.region,
        },
    )
    rows = glue.load_table(table).scan(selected_fields=("id", "amount")).to_arrow().to_pylist()
    return sorted((row["id"], row["amount"]) for row in rows)


@contextmanager
def in_spark(spark: SparkSession, world: GlueWorld, storage: S3Connection) -> Iterator[str]:
    """The name of a catalog that Iceberg's own Java client of Glue is behind, for this session."""
    name = f"glue_{world.server.address.rpartition(':')[2]}"
    properties = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.aws.glue.GlueCatalog",
        ".glue.endpoint": world.server.address,
        ".client.region": storage.region,
        # A session cannot give the server keys for Glue; so for it, moto is open to everybody. And this
        # would count for S3FileIO, too: Hadoop's file system has the server's own keys for the store.
        ".client.credentials-provider": (
            "software.amazon.awssdk.auth.credentials.AnonymousCredentialsProvider"
        ),
        ".io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
        ".warehouse": storage.warehouse,
        ".cache-enabled": "false",
    }
    for key, value in properties.items():
        spark.conf.set(f"spark.sql.catalog.{name}{key}", value)
    with world.server.is_open():
        yield name


def by_spark(spark: SparkSession, table: str) -> Rows:
    return sorted(tuple(row) for row in spark.sql(f"SELECT id, amount FROM {table}").collect())  # noqa: S608


def by_duckdb(pipeline: Pipeline, scan: str) -> Rows:
    catalog = pipeline.catalog
    with closing(connect_duckdb(catalog.connection, catalog.storage)) as connection:
        return sorted(connection.execute(f"SELECT id, amount FROM {scan}").fetchall())  # noqa: S608


def by_delta_rs(storage: S3Connection, location: str) -> Rows:
    table = DeltaTable(location, storage_options=storage_options(storage))
    rows_read = QueryBuilder().register("t", table).execute("SELECT id, amount FROM t").read_all()
    return sorted((row["id"], row["amount"]) for row in pa.table(rows_read).to_pylist())


def test_icebergs_own_clients_of_glue_read_the_rows(
    tableflow: Tableflow, kafka_topic: KafkaTopic, world: GlueWorld
) -> None:
    pipeline, catalog = pipeline_of(tableflow, kafka_topic), world.catalog()
    kafka_topic.send(PAYMENT, payments(20))
    pipeline.catch_up()
    publish(catalog, lambda: source(pipeline))
    table, storage = catalog.listing_for(source(pipeline)).name, pipeline.catalog.storage
    kafka_topic.send(
        NESTED, [{"Lines": [{"Sku": "x"}], **payment} for payment in payments(5, first=20)]
    )
    pipeline.catch_up()
    assert by_pyiceberg(world, storage, table) == expected(pipeline)[:20]  # not told of it yet
    publish(catalog, lambda: source(pipeline))

    rows = expected(pipeline)
    assert len(rows) == 25
    listed = world.table(source(pipeline))
    metadata = listed["Parameters"]["metadata_location"]
    assert by_pyiceberg(world, storage, table) == rows
    assert by_duckdb(pipeline, f"iceberg_scan('{metadata}')") == rows
    with in_spark(pipeline.spark, world, storage) as name:
        in_glue = f"{name}.{quoted(table, '`')}"
        assert by_spark(pipeline.spark, in_glue) == rows
        described = pipeline.spark.sql(f"DESCRIBE TABLE {in_glue}").collect()
    # Glue's columns are those that Iceberg's own client shows, in small letters.
    types = {row.col_name.lower(): row.data_type for row in described}
    columns = {column["Name"]: column for column in listed["StorageDescriptor"]["Columns"]}
    assert set(columns) <= set(types)
    assert columns["lines"]["Type"] == types["lines"].lower() == "array<struct<sku:string>>"
    assert columns["lines"]["Comment"] == "What was paid for"
    assert columns["id"]["Comment"] == "The payment's number"
    assert columns["_kafka"]["Type"].startswith("struct<partition:int,offset:bigint,")


def test_readers_of_delta_find_the_rows_where_glue_says(
    tableflow: Tableflow, kafka_topic: KafkaTopic, world: GlueWorld
) -> None:
    pipeline, catalog = pipeline_of(tableflow, kafka_topic), world.catalog(format="delta")
    kafka_topic.send(PAYMENT, payments(20))
    pipeline.catch_up()
    publish(catalog, lambda: source(pipeline))
    location = world.table(source(pipeline))["StorageDescriptor"]["Location"]
    rows = expected(pipeline)
    assert len(rows) == 20
    assert by_delta_rs(pipeline.catalog.storage, location) == rows
    assert by_duckdb(pipeline, f"delta_scan('{location}')") == rows
    assert by_spark(pipeline.spark, f"delta.`{location}`") == rows


def trinos_catalogs(world: GlueWorld, storage: S3Connection) -> dict[str, dict[str, str]]:
    """Of both connectors: what people on AWS have in Athena's place."""
    key, secret = world.admin
    glue = {
        "hive.metastore.glue.region": REGION,
        "hive.metastore.glue.endpoint-url": world.server.address,
        "hive.metastore.glue.aws-access-key": key,
        "hive.metastore.glue.aws-secret-key": secret,
        "fs.native-s3.enabled": "true",
        "s3.endpoint": str(storage.endpoint),
        "s3.region": storage.region,
        "s3.path-style-access": "true",
        "s3.aws-access-key": str(storage.access_key),
        "s3.aws-secret-key": str(storage.secret_key),
    }
    return {
        "glue_iceberg": {"connector.name": "iceberg", "iceberg.catalog.type": "glue"} | glue,
        "glue_delta": {"connector.name": "delta_lake", "hive.metastore": "glue"} | glue,
    }


@pytest.mark.trino
def test_trino_reads_the_same_rows_through_glue_in_both_formats(
    tableflow: Tableflow, kafka_topic: KafkaTopic, world: GlueWorld, tmp_path: Path
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(20))
    pipeline.catch_up()
    as_iceberg, as_delta = world.catalog(), world.catalog(format="delta", database="as_delta")
    connection, storage = pipeline.catalog.connection, pipeline.catalog.storage
    rows = [list(row) for row in expected(pipeline)]
    with running_trino(connection, storage, tmp_path, trinos_catalogs(world, storage)) as trino:
        for catalog, name in ((as_iceberg, "glue_iceberg"), (as_delta, "glue_delta")):
            publish(catalog, lambda: source(pipeline))
            table = quoted(catalog.listing_for(source(pipeline)).name, '"')
            rows_read = trino.ask(f"SELECT id, amount FROM {name}.{table} ORDER BY id")  # noqa: S608
            assert rows_read == rows
