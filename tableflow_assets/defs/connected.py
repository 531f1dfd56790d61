"""The library's pipeline over Dagster's resources."""

from __future__ import annotations

from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from tableflow_assets.defs.resources import (
    IcebergCatalogResource,
    KafkaResource,
    RegistryResource,
)
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings import Settings, Topic
from tableflow_assets.spark_session import ensure_spark_answers, give_up_soon


def connected_pipeline(
    topic: Topic,
    settings: Settings,
    kafka: KafkaResource,
    registry: RegistryResource,
    catalog: IcebergCatalogResource,
    pyspark: LazyPySparkResource | None = None,
) -> Pipeline:
    def session() -> SparkSession:
        if pyspark is None:
            raise AssertionError("this op does not use Spark")
        ensure_spark_answers(pyspark.spark_config["spark.remote"])
        return give_up_soon(pyspark.spark_session)

    return Pipeline(
        topic=topic,
        log=kafka.log(),
        registry=registry.client(),
        catalog=catalog.client(),
        spark_catalog=settings.spark_catalog,
        state_dir=settings.state_dir,
        connect_spark=session,
    )
