"""A world for each kind of catalog, with a server of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets_tests.publish.worlds.world import CatalogWorld


@pytest.fixture
def glue_world() -> Iterator[CatalogWorld]:
    from tableflow_assets_tests.publish.worlds.glue import GlueWorld

    with GlueWorld() as world:
        yield world


@pytest.fixture
def unity_databricks_world() -> Iterator[CatalogWorld]:
    from tableflow_assets_tests.publish.worlds.unity import DatabricksWorld

    with DatabricksWorld() as world:
        yield world


@pytest.fixture
def unity_open_source_world() -> Iterator[CatalogWorld]:
    from tableflow_assets_tests.publish.worlds.unity import OpenSourceWorld

    with OpenSourceWorld() as world:
        yield world


@pytest.fixture
def snowflake_world(monkeypatch: pytest.MonkeyPatch) -> Iterator[CatalogWorld]:
    from tableflow_assets_tests.publish.worlds.snowflake import SnowflakeWorld, running_stub

    with running_stub(monkeypatch) as stub:
        yield SnowflakeWorld(stub)


@pytest.fixture(scope="session")
def rest_storage() -> Iterator[S3Connection]:
    """An object store for metadata alone."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it would tell every request
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    store.start()
    address = f"http://127.0.0.1:{store.get_host_and_port()[1]}"
    try:
        yield S3Connection("s3://lake/", "us-east-1", address, "key", "secret", path_style=True)
    finally:
        store.stop()


@pytest.fixture(scope="session")
def rest_server(rest_storage: S3Connection) -> Iterator[str]:
    from tableflow_assets_tests.publish.worlds.iceberg_rest_server import running_rest_server

    with running_rest_server(rest_storage) as address:
        yield address


@pytest.fixture
def rest_world(rest_server: str, rest_storage: S3Connection) -> Iterator[CatalogWorld]:
    from tableflow_assets_tests.publish.worlds.rest import RestWorld

    with RestWorld(rest_server, rest_storage) as world:
        yield world
