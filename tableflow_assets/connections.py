"""Where the servers are: from the settings, or from the embedded stack where the settings are silent."""

from __future__ import annotations

from dataclasses import dataclass, field

from tableflow_assets.errors import StackError
from tableflow_assets.settings import Settings
from tableflow_assets.settings_blocks import SecretRef
from tableflow_assets.stack.seaweed import BUCKET, REGION, SeaweedServer
from tableflow_assets.stack.spark import SparkServer
from tableflow_assets.stack.state import StackState


@dataclass(frozen=True)
class S3Connection:
    warehouse: str
    region: str
    endpoint: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    path_style: bool = False


@dataclass(frozen=True)
class CatalogConnection:
    uri: str
    namespace: str
    oauth2_server_uri: str | None = None
    scope: str = "catalog"
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)


def kafka_address(settings: Settings) -> str:
    if settings.kafka:
        return settings.kafka.bootstrap_servers
    return f"127.0.0.1:{_embedded(settings).ports['kafka']}"


def registry_address(settings: Settings) -> str:
    if settings.registry:
        return settings.registry.url
    from tableflow_assets.stack.registry import RegistryServer

    return RegistryServer(_embedded(settings)).address


def spark_address(settings: Settings) -> str:
    return settings.spark.remote if settings.spark else SparkServer(_embedded(settings)).address


def s3_connection(settings: Settings) -> S3Connection:
    if (given := settings.warehouse) is not None:
        return S3Connection(
            warehouse=given.location,
            region=given.region,
            endpoint=given.endpoint,
            access_key=_resolve(given.access_key),
            secret_key=_resolve(given.secret_key),
            path_style=given.path_style,
        )
    state = _embedded(settings)
    address = SeaweedServer(state).address
    keys = (state.access_key, state.secret_key)
    return S3Connection(f"s3://{BUCKET}/", REGION, address, *keys, path_style=True)


def catalog_connection(settings: Settings) -> CatalogConnection:
    if (given := settings.catalog) is not None:
        return CatalogConnection(
            uri=given.uri,
            namespace=settings.namespace,
            oauth2_server_uri=given.oauth2_server_uri,
            scope=given.scope,
            client_id=_resolve(given.client_id),
            client_secret=_resolve(given.client_secret),
        )
    state = _embedded(settings)
    uri = SeaweedServer(state).catalog_address
    return CatalogConnection(
        uri=uri,
        namespace=settings.namespace,
        oauth2_server_uri=f"{uri}/v1/oauth/tokens",
        client_id=state.access_key,
        client_secret=state.secret_key,
    )


def _resolve(secret: SecretRef | None) -> str | None:
    return secret.resolve() if secret else None


def _embedded(settings: Settings) -> StackState:
    state = StackState.load(settings.state_dir)
    if not state.ports:
        raise StackError(
            f"The embedded stack was never started in {settings.state_dir}.",
            "Start it with `tableflow stack up`, or name your own servers in tableflow.yaml.",
        )
    return state
