"""From settings to connections: the object store, the catalog that owns the tables, other REST catalogs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.blocks import Warehouse
from tableflow_assets.settings.rest import RestAccess, RestTls, SigV4
from tableflow_assets.settings.secret_ref import SecretRef


@dataclass(frozen=True)
class Signing:
    """How to sign requests to AWS; without keys, with the machine's own credentials."""

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
    warehouse: str | None = None  # the catalog's name for it; None: the storage's location
    audience: str | None = None
    resource: str | None = None
    token: str | None = field(default=None, repr=False)
    sigv4: Signing | None = None
    tls: RestTls | None = None


class Reader:
    """Turns references to secrets into text by reading them. Subclasses may leave them unread."""

    def secret(self, reference: SecretRef) -> str:
        return reference.resolve()

    def name(self, reference: SecretRef) -> str:
        return reference.resolve_name()


def storage_of(warehouse: Warehouse, reader: Reader | None = None) -> S3Connection:
    reader = reader or Reader()
    return S3Connection(
        warehouse=warehouse.location,
        region=warehouse.region,
        endpoint=warehouse.endpoint,
        access_key=reader.name(warehouse.access_key) if warehouse.access_key else None,
        secret_key=reader.secret(warehouse.secret_key) if warehouse.secret_key else None,
        path_style=warehouse.path_style,
        role_arn=warehouse.role_arn,
        external_id=warehouse.external_id,
        sse=warehouse.sse.type if warehouse.sse else None,
        kms_key=warehouse.sse.kms_key if warehouse.sse else None,
    )


def catalog_of(
    access: RestAccess, namespace: str, reader: Reader | None = None
) -> CatalogConnection:
    reader = reader or Reader()
    return CatalogConnection(
        uri=access.uri,
        namespace=namespace,
        oauth2_server_uri=access.oauth2_server_uri,
        scope=access.scope,
        client_id=reader.name(access.client_id) if access.client_id else None,
        client_secret=reader.secret(access.client_secret) if access.client_secret else None,
        warehouse=access.warehouse,
        audience=access.audience,
        resource=access.resource,
        token=reader.secret(access.token) if access.token else None,
        sigv4=_signing_of(access.sigv4, reader) if access.sigv4 else None,
        tls=access.tls,
    )


def _signing_of(settings: SigV4, reader: Reader) -> Signing:
    return Signing(
        settings.name,
        settings.region,
        reader.name(settings.access_key) if settings.access_key else None,
        reader.secret(settings.secret_key) if settings.secret_key else None,
    )
