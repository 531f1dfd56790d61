"""For pyiceberg: some lines of Python."""

from __future__ import annotations

from tableflow_assets.connect.access import Access, Hidden, Value, rendered

HEAD = "from pyiceberg.catalog import load_catalog"


def snippet(access: Access) -> str:
    known = properties(access)
    is_hidden = any(isinstance(part, Hidden) for value in known.values() for part in value)
    lines = [f"        {key!r}: {_in_python(value)}," for key, value in known.items()]
    return "\n".join(
        [
            *(["import os", ""] if is_hidden else ()),
            HEAD,
            "",
            "catalog = load_catalog(",
            '    "tableflow",',
            "    **{",
            *lines,
            "    },",
            ")",
            f"table = catalog.load_table(({access.namespace!r}, {access.table!r}))",
            "print(table.scan(limit=10).to_arrow())",
        ]
    )


def properties(access: Access) -> dict[str, Value]:
    catalog, storage = access.catalog, access.storage
    found: dict[str, Value | None] = {
        "type": ("rest",),
        "uri": (catalog.uri,),
        "warehouse": (access.warehouse,),
        "s3.endpoint": (storage.endpoint,) if storage.endpoint else None,
        "s3.region": (storage.region,),
        "s3.access-key-id": (storage.access_key,) if storage.access_key else None,
        "s3.secret-access-key": (storage.secret_key,) if storage.secret_key else None,
        "s3.session-token": (storage.session_token,) if storage.session_token else None,
    }
    if catalog.client_id and catalog.client_secret:
        server = catalog.oauth2_server_uri
        found["credential"] = (catalog.client_id, ":", catalog.client_secret)
        found["oauth2-server-uri"] = (server,) if server else None
        found["scope"] = (catalog.scope,)
        found["audience"] = (catalog.audience,) if catalog.audience else None
        found["resource"] = (catalog.resource,) if catalog.resource else None
    elif catalog.token:
        found["token"] = (catalog.token,)
    if (signing := catalog.sigv4) is not None:
        found["rest.sigv4-enabled"] = ("true",)
        found["rest.signing-name"] = (signing.name,)
        found["rest.signing-region"] = (signing.region,)
        found["client.access-key-id"] = (signing.access_key,) if signing.access_key else None
        found["client.secret-access-key"] = (signing.secret_key,) if signing.secret_key else None
    return {key: value for key, value in found.items() if value is not None}


def _in_python(value: Value) -> str:
    if not any(isinstance(part, Hidden) for part in value):
        return repr("".join(value))
    return " + ".join(rendered(value, repr, lambda name: f'os.environ["{name}"]'))
