"""The properties a Spark Connect server needs for the catalog and the object store.

The embedded server and one of your own get the same properties from here; but for the latter, secrets are
placeholders that say where they are kept: whoever runs the server fills them in.
"""

from __future__ import annotations

from dataclasses import replace

from tableflow_assets.decode.json import function as json_function
from tableflow_assets.lake.connection import CatalogConnection, Reader, catalog_of, storage_of
from tableflow_assets.lake.roles import SESSION_NAME
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.blocks import SecretRef
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import embedded
from tableflow_assets.stack.state import StackState

EXTENSIONS = (
    "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "io.delta.sql.DeltaSparkSessionExtension",
)
EMBEDDED = "key of the embedded stack"
S3A = "org.apache.hadoop.fs.s3a"
# Redacted in Spark's logs, plans and UI: its own default, and the login of Kafka clients.
SECRET_OPTIONS = "(?i)secret|password|token|access[.]?key|credential|jaas|keystore"  # noqa: S105  (names)


def spark_properties(settings: Settings) -> dict[str, str]:
    """For a Spark server of your own; makes no request, and contains no secret."""
    return _properties(settings.spark_catalog, _catalog(settings), _storage(settings))


def embedded_properties(catalog: str, state: StackState) -> dict[str, str]:
    """For the embedded server: with the keys themselves."""
    return _properties(catalog, embedded.catalog(state, ""), embedded.storage(state))


def _properties(name: str, connection: CatalogConnection, storage: S3Connection) -> dict[str, str]:
    in_catalog = {**_of_catalog(connection, storage), **_of_iceberg(storage)}
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.redaction.regex": SECRET_OPTIONS,
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
        **{f"spark.sql.catalog.{name}.{key}": value for key, value in in_catalog.items()},
        **json_function.PROPERTIES,
        "spark.hadoop.fs.s3.impl": f"{S3A}.S3AFileSystem",  # Iceberg's paths say s3, not s3a
        **{f"spark.hadoop.fs.s3a.{key}": value for key, value in _of_hadoop(storage).items()},
    }


def _of_catalog(connection: CatalogConnection, storage: S3Connection) -> dict[str, str]:
    credential = f"{connection.client_id}:{connection.client_secret}"
    has_client, signing = connection.client_id is not None, connection.sigv4
    return _without_none(
        {
            "type": "rest",
            "uri": connection.uri,
            "warehouse": connection.warehouse or storage.warehouse,
            "credential": credential if has_client else None,
            "oauth2-server-uri": connection.oauth2_server_uri,
            "scope": connection.scope if has_client else None,
            "audience": connection.audience,
            "resource": connection.resource,
            "token": connection.token,
            "rest.auth.type": "sigv4" if signing else None,
            "rest.signing-name": signing.name if signing else None,
            "rest.signing-region": signing.region if signing else None,
            "rest.access-key-id": signing.access_key if signing else None,
            "rest.secret-access-key": signing.secret_key if signing else None,
            # Another session's commit must be visible at once: we plan on the table's current state.
            "cache-enabled": "false",
        }
    )


def _of_iceberg(storage: S3Connection) -> dict[str, str]:
    role = storage.role_arn is not None
    return _without_none(
        {
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "client.region": storage.region,
            "s3.endpoint": storage.endpoint,
            "s3.path-style-access": "true" if storage.path_style else None,
            # These would take precedence over a role, which the server assumes with its own identity.
            "s3.access-key-id": None if role else storage.access_key,
            "s3.secret-access-key": None if role else storage.secret_key,
            "client.factory": "org.apache.iceberg.aws.AssumeRoleAwsClientFactory" if role else None,
            "client.assume-role.arn": storage.role_arn,
            "client.assume-role.region": storage.region if role else None,
            "client.assume-role.external-id": storage.external_id,
            "client.assume-role.session-name": SESSION_NAME if role else None,
            "s3.sse.type": storage.sse,
            "s3.sse.key": storage.kms_key,
        }
    )


def _of_hadoop(storage: S3Connection) -> dict[str, str]:
    """For Delta, which reads and writes through Hadoop's file systems."""
    role = storage.role_arn is not None
    algorithm = {"s3": "AES256", "kms": "SSE-KMS", None: None}
    return _without_none(
        {
            "impl": f"{S3A}.S3AFileSystem",
            "endpoint": storage.endpoint,
            "endpoint.region": storage.region,
            "path.style.access": "true" if storage.path_style else None,
            "access.key": None if role else storage.access_key,
            "secret.key": None if role else storage.secret_key,
            "aws.credentials.provider": f"{S3A}.auth.AssumedRoleCredentialProvider"
            if role
            else None,
            "assumed.role.arn": storage.role_arn,
            "assumed.role.external.id": storage.external_id,
            "assumed.role.session.name": SESSION_NAME if role else None,
            # Otherwise Hadoop uses the global STS endpoint.
            "assumed.role.sts.endpoint": f"sts.{storage.region}.amazonaws.com" if role else None,
            "assumed.role.sts.endpoint.region": storage.region if role else None,
            "encryption.algorithm": algorithm[storage.sse],
            "encryption.key": storage.kms_key,
        }
    )


def _without_none(values: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}


class _Unread(Reader):
    """Keeps the reference in place of the secret."""

    def secret(self, reference: SecretRef) -> str:
        return f"<{reference}>"

    name = secret


def _storage(settings: Settings) -> S3Connection:
    if settings.warehouse is not None:
        return storage_of(settings.warehouse, _Unread())
    storage = embedded.storage(embedded.state_of(settings))
    return replace(storage, access_key=f"<{EMBEDDED}>", secret_key=f"<{EMBEDDED}>")


def _catalog(settings: Settings) -> CatalogConnection:
    if settings.catalog is not None:
        return catalog_of(settings.catalog, settings.namespace, _Unread())
    catalog = embedded.catalog(embedded.state_of(settings), settings.namespace)
    return replace(catalog, client_id=f"<{EMBEDDED}>", client_secret=f"<{EMBEDDED}>")
