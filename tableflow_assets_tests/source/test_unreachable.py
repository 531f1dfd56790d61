"""A server that is away is named, with its address, before anybody loses patience."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.base.spark_session import connect_spark
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.registry import Registry
from tableflow_assets_tests.support.ports import closed_port


def find_a_table(address: str, **credentials: str) -> None:
    connection = CatalogConnection(address, "shop", **credentials)
    RestCatalog(connection, S3Connection("s3://lake/", "us-east-1")).find("orders")


def find_a_table_with_credentials(address: str) -> None:
    token = f"{address}/v1/oauth/tokens"
    find_a_table(address, oauth2_server_uri=token, client_id="me", client_secret="mine")


@pytest.mark.parametrize(
    ("server", "address", "ask"),
    [
        ("Kafka", "127.0.0.1:{port}", lambda address: Log(address).identify("orders")),
        (
            "The schema registry",
            "http://127.0.0.1:{port}",
            lambda address: Registry(address).subject("orders-value"),
        ),
        (
            "The schema registry",
            "http://127.0.0.1:{port}",
            lambda address: Registry(address).latest_version("orders"),
        ),
        ("The Iceberg catalog", "http://127.0.0.1:{port}", find_a_table),
        ("The Iceberg catalog", "http://127.0.0.1:{port}", find_a_table_with_credentials),
        ("Spark Connect", "sc://127.0.0.1:{port}", connect_spark),
    ],
)
def test_a_server_that_is_away_is_named_with_its_address(
    server: str, address: str, ask: Callable[[str], object]
) -> None:
    address = address.format(port=closed_port())
    started = time.monotonic()
    with pytest.raises(ServerUnreachable) as caught:
        ask(address)
    assert time.monotonic() - started < 20
    assert (caught.value.server, caught.value.address) == (server, address)
    assert f"{server} at {address} does not answer" in caught.value.problem
    assert caught.value.next_step


def test_a_broker_that_is_away_is_named_by_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tableflow_assets.source.log.TIMEOUT_SECONDS", 1.0)
    address = f"127.0.0.1:{closed_port()}"
    topic = TopicIdentity("orders", "cluster", "id", (0,))
    for ask in (Log.topic_names, lambda log: log.end(topic), lambda log: log.ends([topic.name])):
        with pytest.raises(ServerUnreachable, match=f"Kafka at {address} does not answer"):
            ask(Log(address))
