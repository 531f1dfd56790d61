"""The tables as another engine sees them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import duckdb
import pytest

from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.query.duckdb import attach_statements, connect_duckdb
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, rows_of

CATALOG = CatalogConnection(
    uri="http://127.0.0.1:8181",
    namespace="shop",
    oauth2_server_uri="http://127.0.0.1:8181/v1/oauth/tokens",
    client_id="client",
    client_secret="quiet",
)
STORAGE = S3Connection("s3://lake/", "eu-west-1", access_key="key", secret_key="still")


def test_duckdb_sees_the_rows_that_were_committed(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(20))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    catalog = tableflow.catalog
    with closing(connect_duckdb(catalog.connection, catalog.storage)) as connection:
        query = f"""
            SELECT id, amount, _kafka.partition, _kafka."offset", _kafka.schema_id
            FROM "{pipeline.topic.table}" ORDER BY 3, 4
        """  # noqa: S608  (a name of our own)
        rows_seen = connection.execute(query).fetchall()
        everywhere = f'SELECT count(*) FROM lake."{catalog.namespace}"."{pipeline.topic.table}"'  # noqa: S608
        assert connection.execute(everywhere).fetchone() == (20,)
    rows = rows_of(pipeline)
    place = ("partition", "offset", "schema_id")
    assert rows_seen == [
        (row["id"], row["amount"], *(row["_kafka"][name] for name in place)) for row in rows
    ]
    assert sorted(row[0] for row in rows_seen) == list(range(20))


@pytest.mark.parametrize("secret", ["it's", "'; DROP TABLE t; --", "''", 'a"b\\'])
def test_a_quote_in_a_secret_stays_inside_its_literal(secret: str) -> None:
    storage = replace(STORAGE, access_key=secret, secret_key=secret, warehouse=f"s3://{secret}/")
    catalog = replace(CATALOG, client_secret=secret)
    for statement in attach_statements(catalog, storage):
        (parsed,) = duckdb.extract_statements(statement)  # one, whatever stands in the literals
        assert parsed.query.strip() == statement
        assert f"{secret.replace(chr(39), chr(39) * 2)}" in statement


def test_without_credentials_none_are_asked_for() -> None:
    catalog = CatalogConnection(uri="http://127.0.0.1:8181", namespace="shop")
    storage = S3Connection("s3://lake/", "eu-west-1")
    s3_secret, attach = attach_statements(catalog, storage)
    assert "KEY_ID" not in s3_secret
    assert "ATTACH 's3://lake/'" in attach
    assert "AUTHORIZATION_TYPE 'none'" in attach


@pytest.mark.parametrize(
    ("endpoint", "expected", "tls"),
    [
        (None, "s3.amazonaws.com", "true"),
        ("http://127.0.0.1:9000", "127.0.0.1:9000", "false"),
        ("https://store.example", "store.example", "true"),
    ],
)
def test_the_object_store_is_reached_as_its_address_says(
    endpoint: str | None, expected: str, tls: str
) -> None:
    s3_secret, *_ = attach_statements(CATALOG, replace(STORAGE, endpoint=endpoint))
    assert f"ENDPOINT '{expected}'" in s3_secret
    assert f"USE_SSL {tls}" in s3_secret


def test_connections_do_not_show_their_secrets() -> None:
    assert "quiet" not in repr(CATALOG)
    assert "still" not in repr(STORAGE)
