"""For DuckDB: what to type into its shell."""

from __future__ import annotations

from dataclasses import replace

from tableflow_assets.query.duckdb import attach_statements, identifier
from tableflow_assets.query.snippets.access import Access, Hidden

ALIAS = "ice_cat"  # as the labs call it
EXTENSIONS = ("httpfs", "iceberg")


def snippet(access: Access) -> str:
    catalog, storage = access.catalog, access.storage
    signing = catalog.sigv4
    attach = attach_statements(
        replace(
            catalog,
            client_secret=_placeholder(catalog.client_secret),
            token=_placeholder(catalog.token),
            sigv4=signing and replace(signing, secret_key=_placeholder(signing.secret_key)),
        ),
        replace(storage, secret_key=_placeholder(storage.secret_key)),
        ALIAS,
    )
    table = f"{ALIAS}.{identifier(access.namespace)}.{identifier(access.table)}"
    statements = [
        *(f"INSTALL {name}" for name in EXTENSIONS),
        *(f"LOAD {name}" for name in EXTENSIONS),
        *attach,
        f"SELECT * FROM {table} LIMIT 10",  # noqa: S608  (quoted)
    ]
    return ";\n".join(statements) + ";"


def _placeholder(secret: str | None) -> str | None:
    """DuckDB's shell has no variables where secrets are written."""
    return f"<{secret}>" if isinstance(secret, Hidden) else secret
