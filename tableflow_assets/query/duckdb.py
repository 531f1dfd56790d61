"""Queries through DuckDB over the REST catalog: an engine that shares no code with the write path."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection, with_keys

if TYPE_CHECKING:
    import duckdb

EXTENSIONS = ("avro", "httpfs", "iceberg", "delta")  # iceberg loads only after avro
CATALOG_ALIAS = "lake"
NOW_ALIAS = "lake_now"  # the catalog itself, if views have taken its name


def connect_duckdb(
    catalog: CatalogConnection, storage: S3Connection, views: Mapping[str, str] | None = None
) -> duckdb.DuckDBPyConnection:
    """A connection that sees the catalog's tables as ``lake.<namespace>.<table>``.

    ``views``: by table, what replaces it however the query spells its name; see `iceberg_source` and
    `delta_source`. Other tables are then not visible at all.
    """
    import duckdb

    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for extension in EXTENSIONS:
        connection.execute(f"LOAD {_literal(str(_extension_file(extension, duckdb.__version__)))}")
    alias = CATALOG_ALIAS if views is None else NOW_ALIAS
    for statement in attach_statements(catalog, with_keys(storage), alias):
        connection.execute(statement)
    schema = f"{CATALOG_ALIAS}.{identifier(catalog.namespace)}"
    if views is not None:
        connection.execute(f"ATTACH ':memory:' AS {CATALOG_ALIAS}")
        connection.execute(f"CREATE SCHEMA {schema}")
        for table, source in views.items():
            view = f"{schema}.{identifier(table)}"
            connection.execute(f"CREATE VIEW {view} AS SELECT * FROM {source}")  # noqa: S608  (quoted)
    connection.execute(f"USE {schema}")
    return connection


def iceberg_source(namespace: str, table: str, snapshot: int | None = None) -> str:
    """For ``views``: a table of the catalog, as of a snapshot."""
    at = "" if snapshot is None else f" AT (VERSION => {snapshot:d})"
    return f"{NOW_ALIAS}.{identifier(namespace)}.{identifier(table)}{at}"


def delta_source(location: str, version: int | None = None) -> str:
    """For ``views``: the Delta table in this folder, as of a version of its log."""
    at = "" if version is None else f", version => {version:d}"
    return f"delta_scan({_literal(location)}{at})"


def attach_statements(
    catalog: CatalogConnection, storage: S3Connection, alias: str = CATALOG_ALIAS
) -> list[str]:
    """The statements that make the tables visible in any DuckDB. Contains the credentials."""
    endpoint = (storage.endpoint or "s3.amazonaws.com").split("://")[-1]
    tls = "false" if (storage.endpoint or "").startswith("http://") else "true"
    s3_secret = {
        "KEY_ID": storage.access_key,
        "SECRET": storage.secret_key,
        "SESSION_TOKEN": storage.session_token,
        "REGION": storage.region,
        "ENDPOINT": endpoint,
        "URL_STYLE": "path" if storage.path_style else "vhost",
    }
    access, secret = _access(catalog)
    warehouse, address = catalog.warehouse or storage.warehouse, catalog.uri
    if catalog.sigv4 is not None:  # DuckDB reads service and region from the host's name
        address = address.split("://")[-1]
    return [
        f"CREATE SECRET s3_secret (TYPE s3, {_options(s3_secret)}, USE_SSL {tls})",
        *([f"CREATE SECRET iceberg_secret (TYPE iceberg, {_options(secret)})"] if secret else ()),
        f"ATTACH {_literal(warehouse)} AS {alias} (TYPE iceberg, {access}, ENDPOINT {_literal(address)})",
    ]


def _access(catalog: CatalogConnection) -> tuple[str, dict[str, str | None]]:
    """The options with which ATTACH logs in, and the secret it needs."""
    if catalog.sigv4 is not None:
        return "AUTHORIZATION_TYPE 'sigv4', SECRET s3_secret", {}
    if catalog.token is not None:
        return "SECRET iceberg_secret", {"TOKEN": catalog.token}
    if catalog.client_id is None:
        return "AUTHORIZATION_TYPE 'none'", {}
    return "SECRET iceberg_secret", {
        "CLIENT_ID": catalog.client_id,
        "CLIENT_SECRET": catalog.client_secret,
        "OAUTH2_SERVER_URI": catalog.oauth2_server_uri or f"{catalog.uri}/v1/oauth/tokens",
        "OAUTH2_SCOPE": catalog.scope,
    }


def _options(values: dict[str, str | None]) -> str:
    return ", ".join(f"{key} {_literal(value)}" for key, value in values.items() if value)


def identifier(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _extension_file(name: str, version: str) -> Path:
    package = importlib.import_module(f"duckdb_extension_{name}")
    folder = Path(str(package.__file__)).parent / "extensions" / f"v{version}"
    return folder / f"{name}.duckdb_extension"
