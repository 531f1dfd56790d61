"""The library's front door: settings in, pipelines, status and verification out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.base.spark_session import connect_spark
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.discovery import discover, known_topics
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections
from tableflow_assets.table.known_tables import existing_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tableflow_assets.pipeline import Pipeline
    from tableflow_assets.product.products import Product
    from tableflow_assets.product.runner import Runner
    from tableflow_assets.publish.publisher import Publisher
    from tableflow_assets.source.registry import Registry


class Tableflow:
    """Connects lazily, so that asking for one thing never needs the servers of another.

    Imports lazily for the same reason: Spark and the decoders take a second that `status` need not wait.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @cached_property
    def log(self) -> Log:
        return Log(connections.kafka_access(self.settings))

    @cached_property
    def registry(self) -> Registry:
        from tableflow_assets.source.registry import Registry

        return Registry(
            connections.registry_access(self.settings), self.settings.state_dir / "schemas"
        )

    @cached_property
    def catalog(self) -> RestCatalog:
        return RestCatalog(
            connections.catalog_connection(self.settings), connections.s3_connection(self.settings)
        )

    @cached_property
    def publisher(self) -> Publisher:
        from tableflow_assets.publish.publisher import Publisher

        return Publisher(self.settings, self.catalog)

    @cached_property
    def spark(self) -> SparkSession:
        return connect_spark(connections.spark_address(self.settings))

    def close(self) -> None:
        """Give the Spark session back, while its server is still there."""
        if "spark" in self.__dict__:
            self.__dict__.pop("spark").stop()

    def topics(self, names: Iterable[str] = ()) -> tuple[Topic, ...]:
        """The topics asked for by name, or all that the settings and the cluster know."""
        if wanted := tuple(names):
            return tuple(self.topic(name) for name in wanted)
        discover(self.settings, self.log)
        return known_topics(self.settings)

    def tables(self, names: Iterable[str] = ()) -> tuple[Topic, ...]:
        """For work on tables, wherever their rows come from: topics, and products as if they were."""
        if wanted := tuple(names):
            return tuple(self.table(name) for name in wanted)
        return (*self.topics(), *(product.topic for product in self.products))

    def table(self, name: str) -> Topic:
        if name in self.settings.products:
            return next(product.topic for product in self.products if product.name == name)
        return self.topic(name)

    def topic(self, name: str) -> Topic:
        if name in self.settings.products:
            raise SettingsError(
                f"{name!r} is a product: it has no topic of its own.",
                f"Its rows come from other tables: tableflow products run {name}",
            )
        found = self.settings.topic_named(name)
        if found is None:
            raise SettingsError(
                f"No topic or pattern in the settings matches {name!r}.",
                "Add it under `topics:` in tableflow.yaml.",
            )
        return found

    def existing_table(self, topic: Topic) -> Table:
        return existing_table(self.catalog, self.settings.state_dir, topic)

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """In an order in which each comes after those that it reads."""
        from tableflow_assets.product.products import products_of

        return products_of(self.settings)

    def runner(self, product: Product) -> Runner:
        from tableflow_assets.product.runner import Runner

        return Runner(
            product=product,
            catalog=self.catalog,
            spark_catalog=self.settings.spark_catalog,
            state_dir=self.settings.state_dir,
            connect_spark=lambda: self.spark,
        )

    def pipeline(self, topic: Topic) -> Pipeline:
        from tableflow_assets.pipeline import Pipeline

        return Pipeline(
            topic=topic,
            log=self.log,
            registry=self.registry,
            catalog=self.catalog,
            spark_catalog=self.settings.spark_catalog,
            state_dir=self.settings.state_dir,
            connect_spark=lambda: self.spark,
        )
