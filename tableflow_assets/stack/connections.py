"""Where the servers are: from the settings, or else from the embedded stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tableflow_assets.base.disk_space import DiskSpace
from tableflow_assets.lake.connection import CatalogConnection, catalog_of, storage_of
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.settings.settings import Settings
from tableflow_assets.settings.values import disk_bytes
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.registry_access import RegistryAccess
from tableflow_assets.stack import embedded
from tableflow_assets.stack.registry import RegistryServer

if TYPE_CHECKING:
    from tableflow_assets.lake.catalog import RestCatalog


def kafka_address(settings: Settings) -> str:
    if settings.kafka:
        return settings.kafka.bootstrap_servers
    return f"127.0.0.1:{embedded.state_of(settings).ports['kafka']}"


def registry_address(settings: Settings) -> str:
    if settings.registry:
        return settings.registry.url
    return RegistryServer(embedded.state_of(settings)).address


def kafka_access(settings: Settings) -> KafkaAccess:
    """How to connect to the cluster. The embedded one needs no more than its address."""
    security = settings.kafka.security if settings.kafka else None
    return KafkaAccess(kafka_address(settings), security)


def registry_access(settings: Settings) -> RegistryAccess:
    return RegistryAccess(registry_address(settings), settings.registry)


def spark_address(settings: Settings) -> str:
    if settings.spark:
        return settings.spark.remote
    from tableflow_assets.stack.spark import SparkServer

    return SparkServer(embedded.state_of(settings)).address


def spark_token(settings: Settings) -> str | None:
    """The embedded server's; that of your own server is in the environment, where pyspark finds it."""
    return None if settings.spark else embedded.spark_token(embedded.state_of(settings))


def s3_connection(settings: Settings) -> S3Connection:
    if settings.warehouse is not None:
        return storage_of(settings.warehouse)
    return embedded.storage(embedded.state_of(settings))


def disk_space(settings: Settings) -> DiskSpace | None:
    """None: the tables lie in a bucket of your own, where there is room."""
    if settings.warehouse is not None:
        return None
    return DiskSpace(settings.state_dir, disk_bytes(settings.min_free_disk))


def catalog_connection(settings: Settings) -> CatalogConnection:
    if settings.catalog is not None:
        return catalog_of(settings.catalog, settings.namespace)
    return embedded.catalog(embedded.state_of(settings), settings.namespace)


def owning_catalog(settings: Settings) -> RestCatalog:
    from tableflow_assets.lake.catalog import RestCatalog  # pyiceberg takes a while to load

    return RestCatalog(catalog_connection(settings), s3_connection(settings))
