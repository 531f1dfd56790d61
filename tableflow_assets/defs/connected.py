"""The library's front door over Dagster's resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from tableflow_assets.base.spark_session import ensure_spark_answers, give_up_soon
from tableflow_assets.defs.resources import (
    IcebergCatalogResource,
    KafkaResource,
    RegistryResource,
)
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Runner
from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log
from tableflow_assets.source.registry import Registry
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.tableflow import Tableflow

T = TypeVar("T")


@dataclass(frozen=True)
class ServersOfResources:
    """The servers behind the resources that an op or a check has asked Dagster for."""

    iceberg: IcebergCatalogResource
    kafka: KafkaResource | None = None
    schemas: RegistryResource | None = None
    pyspark: LazyPySparkResource | None = None

    def log(self) -> Log:
        return _required(self.kafka).log()

    def registry(self) -> Registry:
        return _required(self.schemas).client()

    def catalog(self) -> RestCatalog:
        return self.iceberg.client()

    def spark(self) -> SparkSession:
        pyspark = _required(self.pyspark)
        ensure_spark_answers(pyspark.spark_config["spark.remote"])
        return give_up_soon(pyspark.spark_session)


def connected_pipeline(
    topic: Topic,
    settings: Settings,
    kafka: KafkaResource,
    registry: RegistryResource,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource | None = None,
) -> Pipeline:
    servers = ServersOfResources(catalog, kafka, registry, pyspark)
    return Tableflow(settings, servers).pipeline(topic)


def connected_runner(
    product: Product,
    settings: Settings,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource,
) -> Runner:
    return Tableflow(settings, ServersOfResources(catalog, pyspark=pyspark)).runner(product)


def connected_handle(
    table: ManagedTable,
    settings: Settings,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource,
) -> TableHandle:
    return Tableflow(settings, ServersOfResources(catalog, pyspark=pyspark)).handle(table)


def connected_publisher(settings: Settings, catalog: IcebergCatalogResource) -> Publisher:
    return Tableflow(settings, ServersOfResources(catalog)).publisher


def _required(resource: T | None) -> T:
    if resource is None:
        raise AssertionError("this op did not ask for that resource")
    return resource
