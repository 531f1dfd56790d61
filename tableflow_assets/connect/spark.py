"""For Spark: a shell with the catalog in it, started from a terminal."""

from __future__ import annotations

import shlex

from tableflow_assets.connect.access import Access, Value, rendered
from tableflow_assets.sql_names import quoted
from tableflow_assets.stack.jars import locked_jars

ARCHIVES = ("iceberg-spark-runtime-4.1_2.13", "iceberg-aws-bundle")
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def snippet(access: Access) -> str:
    table = f"{access.spark_catalog}.{quoted(access.namespace)}.{quoted(access.table)}"
    found = {jar.name: jar for jar in locked_jars() if jar.server == "spark"}
    packages = ",".join(f"{found[n].organisation}:{n}:{found[n].version}" for n in ARCHIVES)
    lines = [
        "spark-sql",
        f"--packages {packages}",
        f"--conf spark.sql.extensions={EXTENSIONS}",
        *(f"--conf {key}={_in_shell(value)}" for key, value in properties(access).items()),
        "-e " + shlex.quote(f"SELECT * FROM {table} LIMIT 10"),  # noqa: S608  (quoted)
    ]
    return " \\\n  ".join(lines)


def properties(access: Access) -> dict[str, Value]:
    """Of Spark's configuration; a session may also set them."""
    name = f"spark.sql.catalog.{access.spark_catalog}"
    return {
        name: ("org.apache.iceberg.spark.SparkCatalog",),
        **{f"{name}.{key}": value for key, value in _of_catalog(access).items()},
    }


def _of_catalog(access: Access) -> dict[str, Value]:
    catalog, storage = access.catalog, access.storage
    found: dict[str, Value | None] = {
        "type": ("rest",),
        "uri": (catalog.uri,),
        "warehouse": (access.warehouse,),
        "io-impl": ("org.apache.iceberg.aws.s3.S3FileIO",),
        "client.region": (storage.region,),
        "s3.endpoint": (storage.endpoint,) if storage.endpoint else None,
        "s3.path-style-access": ("true",) if storage.path_style else None,
        "s3.access-key-id": (storage.access_key,) if storage.access_key else None,
        "s3.secret-access-key": (storage.secret_key,) if storage.secret_key else None,
        "s3.session-token": (storage.session_token,) if storage.session_token else None,
    }
    if catalog.client_id and catalog.client_secret:
        found["credential"] = (catalog.client_id, ":", catalog.client_secret)
        found["scope"] = (catalog.scope,)
        server = catalog.oauth2_server_uri
        found["oauth2-server-uri"] = (server,) if server else None
        found["audience"] = (catalog.audience,) if catalog.audience else None
        found["resource"] = (catalog.resource,) if catalog.resource else None
    elif catalog.token:
        found["token"] = (catalog.token,)
    if (signing := catalog.sigv4) is not None:
        found["rest.sigv4-enabled"] = ("true",)
        found["rest.signing-name"] = (signing.name,)
        found["rest.signing-region"] = (signing.region,)
        found["rest.access-key-id"] = (signing.access_key,) if signing.access_key else None
        found["rest.secret-access-key"] = (signing.secret_key,) if signing.secret_key else None
    return {key: value for key, value in found.items() if value is not None}


def _in_shell(value: Value) -> str:
    return "".join(rendered(value, shlex.quote, lambda name: f'"${name}"'))
