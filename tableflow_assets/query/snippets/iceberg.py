"""Properties with the same name in Iceberg's Python and Java clients: the catalog's and the store's."""

from __future__ import annotations

from tableflow_assets.query.snippets.access import Access, Value


def iceberg_properties(
    access: Access, more: dict[str, Value | None], signing_keys: str
) -> dict[str, Value]:
    """``more``: the engine's own properties. ``signing_keys``: its prefix for the keys of SigV4."""
    catalog, storage = access.catalog, access.storage
    properties: dict[str, Value | None] = {
        "type": ("rest",),
        "uri": (catalog.uri,),
        "warehouse": (access.warehouse,),
        **more,
        "s3.endpoint": _value(storage.endpoint),
        "s3.access-key-id": _value(storage.access_key),
        "s3.secret-access-key": _value(storage.secret_key),
        "s3.session-token": _value(storage.session_token),
    }
    if catalog.client_id and catalog.client_secret:
        properties["credential"] = (catalog.client_id, ":", catalog.client_secret)
        properties["oauth2-server-uri"] = _value(catalog.oauth2_server_uri)
        properties["scope"] = (catalog.scope,)
        properties["audience"] = _value(catalog.audience)
        properties["resource"] = _value(catalog.resource)
    elif catalog.token:
        properties["token"] = (catalog.token,)
    if (signing := catalog.sigv4) is not None:
        properties["rest.sigv4-enabled"] = ("true",)
        properties["rest.signing-name"] = (signing.name,)
        properties["rest.signing-region"] = (signing.region,)
        properties[f"{signing_keys}.access-key-id"] = _value(signing.access_key)
        properties[f"{signing_keys}.secret-access-key"] = _value(signing.secret_key)
    return {key: value for key, value in properties.items() if value is not None}


def _value(value: str | None) -> Value | None:
    return (value,) if value else None
