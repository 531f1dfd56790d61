"""The catalog that owns the tables, where its server answers in an unusual way."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.exceptions import ServerError

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.lake import catalog as catalogs
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection


class RacingCatalog:
    """Fails as SeaweedFS does while another process creates the namespace."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.created: list[str] = []

    def create_namespace_if_not_exists(self, namespace: str) -> None:
        if self.failures:
            self.failures -= 1
            raise ServerError("failed to check namespace: attribute not found: s3tables.metadata")
        self.created.append(namespace)


def owning(server: Any) -> RestCatalog:
    connection = CatalogConnection("http://127.0.0.1:1", "shop")
    catalog = RestCatalog(connection, S3Connection("s3://lake/", "us-east-1"))
    catalog.__dict__["iceberg"] = server
    return catalog


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "AFTER_A_RACE", (0.0, 0.0))


def test_a_namespace_that_another_process_creates_at_the_same_time_is_asked_for_again() -> None:
    server = RacingCatalog(failures=2)
    owning(server).ensure_namespace()
    assert server.created == ["shop"]


def test_a_catalog_that_goes_on_failing_is_named() -> None:
    with pytest.raises(ServerUnreachable, match=r"http://127\.0\.0\.1:1"):
        owning(RacingCatalog(failures=3)).ensure_namespace()
