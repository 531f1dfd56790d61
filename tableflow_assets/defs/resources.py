"""The servers as Dagster resources. They hold references to secrets, which are read where they are used.

Dagster's `EnvVar` only covers the environment. This way all secrets are resolved the same, and a missing
one raises our own error.
"""

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import dagster as dg
from dagster_aws.s3 import S3Resource
from dagster_aws.secretsmanager import SecretsManagerResource
from dagster_pyspark import LazyPySparkResource

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import StackError
from tableflow_assets.base.spark_session import connect_spark
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import Reader, catalog_of, storage_of
from tableflow_assets.lake.storage import S3Connection, s3_client
from tableflow_assets.settings.blocks import SecretRef, Warehouse
from tableflow_assets.settings.rest import Catalog
from tableflow_assets.settings.security import KafkaSecurity
from tableflow_assets.settings.security import Registry as RegistrySettings
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.log import Log
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.registry_access import RegistryAccess
from tableflow_assets.stack import connections
from tableflow_assets.stack.seaweed import BUCKET, REGION
from tableflow_assets.stack.state import StackState

# The embedded stack generates its own keys; its processes and ours find them under these names.
EMBEDDED_ACCESS_KEY = "TABLEFLOW_EMBEDDED_ACCESS_KEY"
EMBEDDED_SECRET_KEY = "TABLEFLOW_EMBEDDED_SECRET_KEY"  # noqa: S105  (a variable's name)
EMBEDDED_SPARK_TOKEN = "TABLEFLOW_EMBEDDED_SPARK_TOKEN"  # noqa: S105  (as above)
NOT_STARTED = "embedded stack: not started"
# Ops hand values to each other through this one, whatever IO manager the surrounding project uses.
IO_MANAGER = "tableflow_io_manager"


class SecretsResource(SecretsManagerResource):
    """AWS Secrets Manager, for settings that refer to it; a region of its own may come with a secret."""

    def reader(self) -> Reader:
        return _ReaderOf(self)

    def client_in(self, region: str | None) -> Any:
        if region is None or region == self.region_name:
            return self.get_client()
        return self.model_copy(update={"region_name": region}).get_client()


class _ReaderOf(Reader):
    def __init__(self, manager: SecretsResource) -> None:
        self._client = manager.client_in

    def secret(self, reference: SecretRef) -> str:
        return reference.resolve(self._client)

    def name(self, reference: SecretRef) -> str:
        return reference.resolve_name(self._client)


def _client_of(manager: SecretsResource | None) -> secrets.MakeClient | None:
    """Without the resource, AWS Secrets Manager is reached with the machine's own identity."""
    return manager.client_in if manager else None


class KafkaResource(dg.ConfigurableResource[Log]):
    """The cluster whose topics become tables. ``security``: as the settings have it."""

    bootstrap_servers: str
    security: dict[str, Any] | None = None
    secretsmanager: dg.ResourceDependency[SecretsResource]

    def log(self) -> Log:
        security = KafkaSecurity.model_validate(self.security) if self.security else None
        address = _started(self.bootstrap_servers)
        return Log(KafkaAccess(address, security, _client_of(self.secretsmanager)))


class RegistryResource(dg.ConfigurableResource[Registry]):
    """The schema registry, by Confluent's API. ``registry``: as the settings have it."""

    url: str
    registry: dict[str, Any] | None = None
    cache_folder: str
    secretsmanager: dg.ResourceDependency[SecretsResource]

    def client(self) -> Registry:
        block = RegistrySettings.model_validate(self.registry) if self.registry else None
        access = RegistryAccess(_started(self.url), block, _client_of(self.secretsmanager))
        return Registry(access, Path(self.cache_folder))


class S3Address(S3Resource):
    """The store that the tables lie in, as `warehouse` in the settings has it."""

    warehouse: dict[str, Any]
    secretsmanager: dg.ResourceDependency[SecretsResource]

    def storage(self) -> S3Connection:
        reader = self.secretsmanager.reader()
        return storage_of(Warehouse.model_validate(self.warehouse), reader)

    def get_client(self) -> Any:
        return s3_client(self.storage())

    def get_object_to_set_on_execution_context(self) -> Self:
        # The base class would create a client on every tick of every sensor, and nobody here uses it.
        return self


class IcebergCatalogResource(dg.ConfigurableResource[RestCatalog]):
    """The Iceberg REST catalog that owns the tables, as `catalog` in the settings has it."""

    namespace: str
    catalog: dict[str, Any]
    s3: dg.ResourceDependency[S3Address]

    def client(self) -> RestCatalog:
        _started(str(self.catalog["uri"]))
        block = Catalog.model_validate(self.catalog)
        reader = self.s3.secretsmanager.reader()
        return RestCatalog(catalog_of(block, self.namespace, reader), self.s3.storage())


class SparkConnectResource(LazyPySparkResource):
    """A session on the Spark Connect server. ``token``: where that of the embedded server is kept."""

    token: dict[str, Any] | None = None

    def _init_session(self) -> None:
        if self._spark_session is None:
            token = SecretRef.model_validate(self.token).resolve() if self.token else None
            self._spark_session = connect_spark(self.spark_config["spark.remote"], token)


def resources_from(settings: Settings) -> dict[str, object]:
    """Resources for the settings' servers, with placeholders for servers that were never started.

    Their keys begin with `tableflow_`: a project that merges these definitions may well have its own
    `kafka`.
    """
    # dagster-aws is pinned, and its warning would repeat with every run and every tick.
    warnings.filterwarnings("ignore", ".*SecretsManagerResource", dg.BetaWarning)
    _export_embedded_keys(settings)
    manager = SecretsResource()
    s3 = _s3(settings, manager)
    security = settings.kafka.security if settings.kafka else None
    return {
        "tableflow_kafka": KafkaResource(
            bootstrap_servers=_address(connections.kafka_address, settings),
            security=security.as_data() if security else None,
            secretsmanager=manager,
        ),
        "tableflow_registry": RegistryResource(
            url=_address(connections.registry_address, settings),
            registry=settings.registry.as_data() if settings.registry else None,
            cache_folder=str(settings.state_dir / "schemas"),
            secretsmanager=manager,
        ),
        "tableflow_secretsmanager": manager,
        "tableflow_s3": s3,
        "tableflow_catalog": _catalog(settings, s3),
        "tableflow_pyspark": _spark(settings),
        IO_MANAGER: dg.FilesystemIOManager(),
    }


def _s3(settings: Settings, manager: SecretsResource) -> S3Address:
    block = settings.warehouse.as_data() if settings.warehouse else _embedded_warehouse(settings)
    return S3Address(
        region_name=block.get("region"),
        endpoint_url=block.get("endpoint"),
        warehouse=block,
        secretsmanager=manager,
    )


def _spark(settings: Settings) -> SparkConnectResource:
    address = _address(connections.spark_address, settings)
    needs_token = address != NOT_STARTED and connections.spark_token(settings) is not None
    return SparkConnectResource(
        spark_config={"spark.remote": address},
        token={"env": EMBEDDED_SPARK_TOKEN} if needs_token else None,
    )


def _embedded_warehouse(settings: Settings) -> dict[str, Any]:
    return {
        "location": f"s3://{BUCKET}/",
        "region": REGION,
        "endpoint": _address(lambda source: connections.s3_connection(source).endpoint, settings),
        "path_style": True,
        "access_key": {"env": EMBEDDED_ACCESS_KEY},
        "secret_key": {"env": EMBEDDED_SECRET_KEY},
    }


def _catalog(settings: Settings, s3: S3Address) -> IcebergCatalogResource:
    block = settings.catalog.as_data() if settings.catalog else _embedded_catalog(settings)
    return IcebergCatalogResource(namespace=settings.namespace, catalog=block, s3=s3)


def _embedded_catalog(settings: Settings) -> dict[str, Any]:
    uri = _address(lambda source: connections.catalog_connection(source).uri, settings)
    return {
        "uri": uri,
        "oauth2_server_uri": f"{uri}/v1/oauth/tokens",
        "client_id": {"env": EMBEDDED_ACCESS_KEY},
        "client_secret": {"env": EMBEDDED_SECRET_KEY},
    }


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
        os.environ[EMBEDDED_SPARK_TOKEN] = state.spark_token
