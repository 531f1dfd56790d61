"""The real catalog behind a door, for one of several hosts that share it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from uuid import uuid4

from tableflow_assets.base.spark_session import session_for_few_rows
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.door import Answer, PassOn, Request, door


@contextmanager
def behind_a_door(
    tableflow: Tableflow, pipeline: Pipeline, treat: Callable[[Request, PassOn], Answer]
) -> Iterator[Pipeline]:
    """The same topic and table; but we and Spark reach the catalog through the door."""
    connection = tableflow.catalog.connection
    with door(connection.uri, treat) as address:
        catalog = RestCatalog(replace(connection, uri=address), tableflow.catalog.storage)
        name = spark_catalog(tableflow, uri=address)
        yield replace(pipeline, catalog=catalog, spark_catalog=name)


def spark_catalog(tableflow: Tableflow, **other: str) -> str:
    """The catalog under another name in Spark; ``other``: `uri`, or `endpoint` of the store."""
    catalog, store = tableflow.catalog.connection, tableflow.catalog.storage
    name = f"other_{uuid4().hex[:8]}"
    options = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "rest",
        ".uri": other.get("uri", catalog.uri),
        ".warehouse": store.warehouse,
        ".credential": f"{catalog.client_id}:{catalog.client_secret}",
        ".oauth2-server-uri": str(catalog.oauth2_server_uri),
        ".scope": catalog.scope,
        ".io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        ".client.region": store.region,
        ".s3.endpoint": other.get("endpoint", str(store.endpoint)),
        # Asked for this, the embedded catalog leaves it to us where the store is.
        ".header.X-Iceberg-Access-Delegation": "vended-credentials",
        ".s3.path-style-access": "true",
        ".s3.access-key-id": str(store.access_key),
        ".s3.secret-access-key": str(store.secret_key),
        ".s3.retry.num-retries": "0",
        ".cache-enabled": "false",
    }
    for key, value in options.items():
        for session in (tableflow.spark, session_for_few_rows(tableflow.spark)):
            session.conf.set(f"spark.sql.catalog.{name}{key}", value)
    return name
