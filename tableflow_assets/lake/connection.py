"""How the catalog that owns the tables, and another REST catalog, is reached: from their settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.blocks import Warehouse
from tableflow_assets.settings.rest import RestAccess, RestTls, SigV4
from tableflow_assets.settings.secret_ref import SecretRef


@dataclass(frozen=True)
class Signing:
    """As AWS wants requests to be signed; without keys, with those of the machine."""

    name: str
    region: str
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class CatalogConnection:
    uri: str
    namespace: str
    oauth2_server_uri: str | None = None
    scope: str = "catalog"
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    warehouse: str | None = None  # as the catalog calls it; None: the location of the storage
    audience: str | None = None
    resource: str | None = None
    token: str | None = field(default=None, repr=False)
    sigv4: Signing | None = None
    tls: RestTls | None = None


class Reader:
    """How the reference to a secret becomes a text: by reading it. Others pass it on unread."""

    def secret(self, reference: SecretRef) -> str:
        return reference.resolve()

    def name(self, reference: SecretRef) -> str:
        return reference.resolve_name()


def storage_of(given: Warehouse, reader: Reader | None = None) -> S3Connection:
    reader = reader or Reader()
    return S3Connection(
        warehouse=given.location,
        region=given.region,
        endpoint=given.endpoint,
        access_key=reader.name(given.access_key) if given.access_key else None,
        secret_key=reader.secret(given.secret_key) if given.secret_key else None,
        path_style=given.path_style,
        role_arn=given.role_arn,
        external_id=given.external_id,
        sse=given.sse.type if given.sse else None,
        kms_key=given.sse.kms_key if given.sse else None,
    )


def catalog_of(
    given: RestAccess, namespace: str, reader: Reader | None = None
) -> CatalogConnection:
    reader = reader or Reader()
    return CatalogConnection(
        uri=given.uri,
        namespace=namespace,
        oauth2_server_uri=given.oauth2_server_uri,
        scope=given.scope,
        client_id=reader.name(given.client_id) if given.client_id else None,
        client_secret=reader.secret(given.client_secret) if given.client_secret else None,
        warehouse=given.warehouse,
        audience=given.audience,
        resource=given.resource,
        token=reader.secret(given.token) if given.token else None,
        sigv4=_signing_of(given.sigv4, reader) if given.sigv4 else None,
        tls=given.tls,
    )


def _signing_of(given: SigV4, reader: Reader) -> Signing:
    return Signing(
        given.name,
        given.region,
        reader.name(given.access_key) if given.access_key else None,
        reader.secret(given.secret_key) if given.secret_key else None,
    )
