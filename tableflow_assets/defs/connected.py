"""The library's pipeline, and its runs of products, over Dagster's resources."""

from __future__ import annotations

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from tableflow_assets.base.spark_session import ensure_spark_answers, give_up_soon
from tableflow_assets.defs.resources import (
    IcebergCatalogResource,
    KafkaResource,
    RegistryResource,
)
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Runner
from tableflow_assets.settings.settings import Settings, Topic


def connected_pipeline(
    topic: Topic,
    settings: Settings,
    kafka: KafkaResource,
    registry: RegistryResource,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource | None = None,
) -> Pipeline:
    return Pipeline(
        topic=topic,
        log=kafka.log(),
        registry=registry.client(),
        catalog=catalog.client(),
        spark_catalog=settings.spark_catalog,
        state_dir=settings.state_dir,
        connect_spark=lambda: _session(pyspark),
    )


def connected_runner(
    product: Product,
    settings: Settings,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource,
) -> Runner:
    return Runner(
        product=product,
        catalog=catalog.client(),
        spark_catalog=settings.spark_catalog,
        state_dir=settings.state_dir,
        connect_spark=lambda: _session(pyspark),
    )


def _session(pyspark: LazyPySparkResource | None) -> SparkSession:
    if pyspark is None:
        raise AssertionError("this op does not use Spark")
    ensure_spark_answers(pyspark.spark_config["spark.remote"])
    return give_up_soon(pyspark.spark_session)
