"""The REST catalog that `publish` tests run against serves these tests as well."""

from __future__ import annotations

from tableflow_assets_tests.publish.conftest import rest_server, rest_storage

__all__ = ["rest_server", "rest_storage"]
