"""Queries through DuckDB over the REST catalog: an engine that shares no code with the write path."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from tableflow_assets.connections import CatalogConnection, S3Connection

if TYPE_CHECKING:
    import duckdb

EXTENSIONS = ("avro", "httpfs", "iceberg")  # iceberg loads only after avro
CATALOG_ALIAS = "lake"


def connect_duckdb(catalog: CatalogConnection, storage: S3Connection) -> duckdb.DuckDBPyConnection:
    """A connection that sees the catalog's tables as ``lake.<namespace>.<table>``."""
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for extension in EXTENSIONS:
        connection.execute(f"LOAD {_quoted(str(_extension_file(extension, duckdb.__version__)))}")
    for statement in attach_statements(catalog, storage):
        connection.execute(statement)
    connection.execute(f'USE {CATALOG_ALIAS}."{catalog.namespace}"')
    return connection


def attach_statements(catalog: CatalogConnection, storage: S3Connection) -> list[str]:
    """What a user types into any DuckDB to see the tables. Contains the credentials."""
    endpoint = (storage.endpoint or "s3.amazonaws.com").split("://")[-1]
    tls = "false" if (storage.endpoint or "").startswith("http://") else "true"
    s3_secret = {
        "KEY_ID": storage.access_key,
        "SECRET": storage.secret_key,
        "REGION": storage.region,
        "ENDPOINT": endpoint,
        "URL_STYLE": "path" if storage.path_style else "vhost",
    }
    iceberg_secret = {
        "CLIENT_ID": catalog.client_id,
        "CLIENT_SECRET": catalog.client_secret,
        "OAUTH2_SERVER_URI": catalog.oauth2_server_uri,
        "OAUTH2_SCOPE": catalog.scope,
    }
    is_closed = catalog.client_id is not None
    access = "SECRET iceberg_secret" if is_closed else "AUTHORIZATION_TYPE 'none'"
    return [
        f"CREATE SECRET s3_secret (TYPE s3, {_options(s3_secret)}, USE_SSL {tls})",
        *([f"CREATE SECRET iceberg_secret (TYPE iceberg, {_options(iceberg_secret)})"] * is_closed),
        f"ATTACH {_quoted(storage.warehouse)} AS {CATALOG_ALIAS}"
        f" (TYPE iceberg, {access}, ENDPOINT {_quoted(catalog.uri)})",
    ]


def _options(values: dict[str, str | None]) -> str:
    return ", ".join(f"{key} {_quoted(value)}" for key, value in values.items() if value)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _extension_file(name: str, version: str) -> Path:
    package = importlib.import_module(f"duckdb_extension_{name}")
    folder = Path(str(package.__file__)).parent / "extensions" / f"v{version}"
    return folder / f"{name}.duckdb_extension"
