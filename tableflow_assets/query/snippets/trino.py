"""For Trino: a file in its folder `etc/catalog`."""

from __future__ import annotations

from tableflow_assets.query.snippets.access import Access, Value, rendered

Properties = dict[str, Value]


def snippet(access: Access) -> str:
    """``etc/catalog/lake.properties``. Trino resolves environment variables itself."""
    values = properties(access).items()
    return "\n".join(f"{key}={_in_file(value)}" for key, value in values)


def properties(access: Access) -> Properties:
    catalog, storage = access.catalog, access.storage
    values: dict[str, Value | None] = {
        "connector.name": ("iceberg",),
        "iceberg.catalog.type": ("rest",),
        "iceberg.rest-catalog.uri": (catalog.uri,),
        "iceberg.rest-catalog.warehouse": (access.warehouse,),
        **_security(access),
        "fs.native-s3.enabled": ("true",),
        "s3.endpoint": (storage.endpoint,) if storage.endpoint else None,
        "s3.region": (storage.region,),
        "s3.path-style-access": ("true",) if storage.path_style else None,
        "s3.aws-access-key": (storage.access_key,) if storage.access_key else None,
        "s3.aws-secret-key": (storage.secret_key,) if storage.secret_key else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def _security(access: Access) -> dict[str, Value | None]:
    catalog, prefix = access.catalog, "iceberg.rest-catalog"
    if catalog.sigv4 is not None:
        return {
            f"{prefix}.security": ("SIGV4",),
            f"{prefix}.signing-name": (catalog.sigv4.name,),
        }
    if catalog.token:
        return {
            f"{prefix}.security": ("OAUTH2",),
            f"{prefix}.oauth2.token": (catalog.token,),
        }
    if not catalog.client_id or not catalog.client_secret:
        return {}
    server = catalog.oauth2_server_uri
    return {
        f"{prefix}.security": ("OAUTH2",),
        f"{prefix}.oauth2.credential": (catalog.client_id, ":", catalog.client_secret),
        f"{prefix}.oauth2.server-uri": (server,) if server else None,
        f"{prefix}.oauth2.scope": (catalog.scope,),
    }


def _in_file(value: Value) -> str:
    return "".join(rendered(value, str, lambda name: f"${{ENV:{name}}}"))
