"""The servers as Dagster resources. Secrets are named here, never held: Dagster reads them at run time."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

import dagster as dg
from dagster_aws.s3 import S3Resource
from dagster_pyspark import LazyPySparkResource

from tableflow_assets import connections
from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.connections import CatalogConnection, S3Connection
from tableflow_assets.errors import StackError
from tableflow_assets.settings import Settings
from tableflow_assets.settings_blocks import SecretRef
from tableflow_assets.source.log import Log
from tableflow_assets.source.registry import Registry
from tableflow_assets.stack.seaweed import BUCKET, REGION
from tableflow_assets.stack.state import StackState

# The embedded stack makes its own keys; its processes and ours find them under these names.
EMBEDDED_ACCESS_KEY = "TABLEFLOW_EMBEDDED_ACCESS_KEY"
EMBEDDED_SECRET_KEY = "TABLEFLOW_EMBEDDED_SECRET_KEY"  # noqa: S105  (a variable's name)
NOT_STARTED = "embedded stack: not started"


class KafkaResource(dg.ConfigurableResource[Log]):
    """The cluster whose topics become tables."""

    bootstrap_servers: str

    def log(self) -> Log:
        return Log(_started(self.bootstrap_servers))


class RegistryResource(dg.ConfigurableResource[Registry]):
    """The schema registry, by Confluent's API."""

    url: str
    cache_folder: str

    def client(self) -> Registry:
        return Registry(_started(self.url), Path(self.cache_folder))


class IcebergCatalogResource(dg.ConfigurableResource[RestCatalog]):
    """The Iceberg REST catalog that owns the tables, and the storage they lie in."""

    uri: str
    namespace: str
    warehouse: str
    scope: str = "catalog"
    oauth2_server_uri: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    path_style: bool = False  # of the storage's addresses
    s3: dg.ResourceDependency[S3Resource]

    def client(self) -> RestCatalog:
        catalog = CatalogConnection(
            uri=_started(self.uri),
            namespace=self.namespace,
            oauth2_server_uri=self.oauth2_server_uri,
            scope=self.scope,
            client_id=self.client_id,
            client_secret=self.client_secret,
        )
        storage = S3Connection(
            warehouse=self.warehouse,
            region=self.s3.region_name or "us-east-1",
            endpoint=self.s3.endpoint_url,
            access_key=self.s3.aws_access_key_id,
            secret_key=self.s3.aws_secret_access_key,
            path_style=self.path_style,
        )
        return RestCatalog(catalog, storage)


def resources_from(settings: Settings) -> dict[str, object]:
    """Resources for the settings' servers; loads, with placeholders, before any was ever started."""
    _export_embedded_keys(settings)
    s3 = _s3(settings)
    return {
        "kafka": KafkaResource(bootstrap_servers=_address(connections.kafka_address, settings)),
        "registry": RegistryResource(
            url=_address(connections.registry_address, settings),
            cache_folder=str(settings.state_dir / "schemas"),
        ),
        "s3": s3,
        "catalog": _catalog(settings, s3),
        "pyspark": LazyPySparkResource(
            spark_config={"spark.remote": _address(connections.spark_address, settings)}
        ),
    }


class S3Address(S3Resource):
    """Without the client that it would make at every tick of every sensor, and nobody here uses."""

    def get_object_to_set_on_execution_context(self) -> Self:
        return self


def _s3(settings: Settings) -> S3Resource:
    if (given := settings.warehouse) is not None:
        return S3Address(
            region_name=given.region,
            endpoint_url=given.endpoint,
            aws_access_key_id=_variable(given.access_key),
            aws_secret_access_key=_variable(given.secret_key),
        )
    return S3Address(
        region_name=REGION,
        endpoint_url=_address(lambda known: connections.s3_connection(known).endpoint, settings),
        aws_access_key_id=dg.EnvVar(EMBEDDED_ACCESS_KEY),
        aws_secret_access_key=dg.EnvVar(EMBEDDED_SECRET_KEY),
    )


def _catalog(settings: Settings, s3: S3Resource) -> IcebergCatalogResource:
    warehouse = settings.warehouse.location if settings.warehouse else f"s3://{BUCKET}/"
    path_style = settings.warehouse.path_style if settings.warehouse else True
    if (given := settings.catalog) is not None:
        return IcebergCatalogResource(
            uri=given.uri,
            namespace=settings.namespace,
            warehouse=warehouse,
            path_style=path_style,
            scope=given.scope,
            oauth2_server_uri=given.oauth2_server_uri,
            client_id=_variable(given.client_id),
            client_secret=_variable(given.client_secret),
            s3=s3,
        )
    uri = _address(lambda known: connections.catalog_connection(known).uri, settings)
    return IcebergCatalogResource(
        uri=uri,
        namespace=settings.namespace,
        warehouse=warehouse,
        path_style=path_style,
        oauth2_server_uri=f"{uri}/v1/oauth/tokens",
        client_id=dg.EnvVar(EMBEDDED_ACCESS_KEY),
        client_secret=dg.EnvVar(EMBEDDED_SECRET_KEY),
        s3=s3,
    )


def _variable(secret: SecretRef | None) -> dg.EnvVar | None:
    return dg.EnvVar(secret.env) if secret else None


def _address(find: Callable[[Settings], str | None], settings: Settings) -> str:
    try:
        return find(settings) or NOT_STARTED
    except StackError:
        return NOT_STARTED


def _started(address: str) -> str:
    if address.startswith(NOT_STARTED):
        raise StackError(
            "The embedded stack was not running when Dagster loaded these definitions.",
            "Start it with `tableflow stack up`, then reload the definitions in Dagster.",
        )
    return address


def _export_embedded_keys(settings: Settings) -> None:
    state = StackState.load(settings.state_dir)
    if state.access_key:
        os.environ[EMBEDDED_ACCESS_KEY] = state.access_key
        os.environ[EMBEDDED_SECRET_KEY] = state.secret_key
    else:
        # Dagster refuses to start a run whose variables are missing, before we could explain why.
        os.environ.setdefault(EMBEDDED_ACCESS_KEY, "")
        os.environ.setdefault(EMBEDDED_SECRET_KEY, "")
