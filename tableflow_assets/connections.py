"""Where the servers are: from the settings, or from the embedded stack where the settings are silent."""

from __future__ import annotations

from dataclasses import dataclass, field

from tableflow_assets import masking
from tableflow_assets.errors import StackError
from tableflow_assets.settings import Settings
from tableflow_assets.settings_blocks import Warehouse
from tableflow_assets.settings_rest import RestAccess, RestTls, SigV4
from tableflow_assets.settings_secrets import SecretRef
from tableflow_assets.source.kafka_client import KafkaAccess
from tableflow_assets.source.registry_client import RegistryAccess
from tableflow_assets.stack.seaweed import BUCKET, REGION, SeaweedServer
from tableflow_assets.stack.spark import SparkServer
from tableflow_assets.stack.state import StackState
from tableflow_assets.storage import S3Connection

__all__ = ["CatalogConnection", "S3Connection"]  # the latter for those who look for it here


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


def kafka_address(settings: Settings) -> str:
    if settings.kafka:
        return settings.kafka.bootstrap_servers
    return f"127.0.0.1:{_embedded(settings).ports['kafka']}"


def registry_address(settings: Settings) -> str:
    if settings.registry:
        return settings.registry.url
    from tableflow_assets.stack.registry import RegistryServer

    return RegistryServer(_embedded(settings)).address


def kafka_access(settings: Settings) -> KafkaAccess:
    """How to get at the cluster. Its address alone is enough for the embedded one."""
    security = settings.kafka.security if settings.kafka else None
    return KafkaAccess(kafka_address(settings), security)


def registry_access(settings: Settings) -> RegistryAccess:
    return RegistryAccess(registry_address(settings), settings.registry)


def spark_address(settings: Settings) -> str:
    return settings.spark.remote if settings.spark else SparkServer(_embedded(settings)).address


def s3_connection(settings: Settings) -> S3Connection:
    if settings.warehouse is not None:
        return storage_of(settings.warehouse)
    return embedded_storage(_embedded(settings))


def catalog_connection(settings: Settings) -> CatalogConnection:
    if settings.catalog is not None:
        return catalog_of(settings.catalog, settings.namespace)
    return embedded_catalog(_embedded(settings), settings.namespace)


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


def embedded_storage(state: StackState) -> S3Connection:
    address = SeaweedServer(state).address
    keys = (masking.remember_name(state.access_key), masking.remember(state.secret_key))
    return S3Connection(f"s3://{BUCKET}/", REGION, address, *keys, path_style=True)


def embedded_catalog(state: StackState, namespace: str) -> CatalogConnection:
    uri = SeaweedServer(state).catalog_address
    return CatalogConnection(
        uri=uri,
        namespace=namespace,
        oauth2_server_uri=f"{uri}/v1/oauth/tokens",
        client_id=masking.remember_name(state.access_key),
        client_secret=masking.remember(state.secret_key),
    )


def _embedded(settings: Settings) -> StackState:
    state = StackState.load(settings.state_dir)
    if not state.ports:
        raise StackError(
            f"The embedded stack was never started in {settings.state_dir}.",
            "Start it with `tableflow stack up`, or name your own servers in tableflow.yaml.",
        )
    return state
