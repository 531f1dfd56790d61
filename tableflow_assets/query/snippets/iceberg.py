"""What Iceberg's own clients, in Python and in Java, call alike: the catalog, and the keys of both."""

from __future__ import annotations

from tableflow_assets.query.snippets.access import Access, Value


def iceberg_properties(
    access: Access, more: dict[str, Value | None], signing_keys: str
) -> dict[str, Value]:
    """``more``: what is the engine's own. ``signing_keys``: what it calls the keys of SigV4."""
    catalog, storage = access.catalog, access.storage
    found: dict[str, Value | None] = {
        "type": ("rest",),
        "uri": (catalog.uri,),
        "warehouse": (access.warehouse,),
        **more,
        "s3.endpoint": _given(storage.endpoint),
        "s3.access-key-id": _given(storage.access_key),
        "s3.secret-access-key": _given(storage.secret_key),
        "s3.session-token": _given(storage.session_token),
    }
    if catalog.client_id and catalog.client_secret:
        found["credential"] = (catalog.client_id, ":", catalog.client_secret)
        found["oauth2-server-uri"] = _given(catalog.oauth2_server_uri)
        found["scope"] = (catalog.scope,)
        found["audience"] = _given(catalog.audience)
        found["resource"] = _given(catalog.resource)
    elif catalog.token:
        found["token"] = (catalog.token,)
    if (signing := catalog.sigv4) is not None:
        found["rest.sigv4-enabled"] = ("true",)
        found["rest.signing-name"] = (signing.name,)
        found["rest.signing-region"] = (signing.region,)
        found[f"{signing_keys}.access-key-id"] = _given(signing.access_key)
        found[f"{signing_keys}.secret-access-key"] = _given(signing.secret_key)
    return {key: value for key, value in found.items() if value is not None}


def _given(value: str | None) -> Value | None:
    return (value,) if value else None
