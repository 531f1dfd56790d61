"""The library's front door: settings in, pipelines, status and verification out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.base.spark_session import close_session, connect_spark
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.discovery import discover, known_topics
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections
from tableflow_assets.table.known_tables import existing_table

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from tableflow_assets.base.disk_space import DiskSpace
    from tableflow_assets.pipeline import Pipeline
    from tableflow_assets.product.load import Products
    from tableflow_assets.product.products import Product
    from tableflow_assets.product.runner import Runner
    from tableflow_assets.publish.publisher import Publisher
    from tableflow_assets.source.registry import Registry
    from tableflow_assets.table.handle import TableHandle


class Servers(Protocol):
    """How the servers are connected to: each method is called when its server is first needed."""

    def log(self) -> Log: ...
    def registry(self) -> Registry: ...
    def catalog(self) -> RestCatalog: ...
    def spark(self) -> SparkSession: ...


@dataclass(frozen=True)
class ServersOfSettings:
    """Those that the settings name; the embedded stack's where they name none."""

    settings: Settings

    def log(self) -> Log:
        return Log(connections.kafka_access(self.settings))

    def registry(self) -> Registry:
        from tableflow_assets.source.registry import Registry

        schemas = self.settings.state_dir / "schemas"
        return Registry(connections.registry_access(self.settings), schemas)

    def catalog(self) -> RestCatalog:
        return connections.owning_catalog(self.settings)

    def spark(self) -> SparkSession:
        address = connections.spark_address(self.settings)
        return connect_spark(address, connections.spark_token(self.settings))


class Tableflow:
    """Connects lazily, so that asking for one thing never needs the servers of another.

    Imports lazily for the same reason: Spark and the decoders take a second that `status` can do without.
    """

    def __init__(self, settings: Settings, servers: Servers | None = None) -> None:
        self.settings = settings
        self._servers = servers or ServersOfSettings(settings)

    @cached_property
    def log(self) -> Log:
        return self._servers.log()

    @cached_property
    def registry(self) -> Registry:
        return self._servers.registry()

    @cached_property
    def catalog(self) -> RestCatalog:
        return self._servers.catalog()

    @cached_property
    def publisher(self) -> Publisher:
        from tableflow_assets.publish.publisher import Publisher

        return Publisher(self.settings, self.catalog)

    @cached_property
    def spark(self) -> SparkSession:
        return self._servers.spark()

    def close(self) -> None:
        """Give the Spark session back, while its server is still there."""
        if "spark" in self.__dict__:
            close_session(self.__dict__.pop("spark"))

    def topics(self, names: Iterable[str] = ()) -> tuple[Topic, ...]:
        """The topics asked for by name, or all that the settings and the cluster know."""
        if chosen := tuple(names):
            return tuple(self.topic(name) for name in chosen)
        discover(self.settings, self.log)
        return known_topics(self.settings)

    def tables(self, names: Iterable[str] = ()) -> tuple[ManagedTable, ...]:
        """For work on tables, wherever their rows come from: those of topics and of products."""
        if chosen := tuple(names):
            return tuple(self.table(name) for name in chosen)
        return (*self.topics(), *(product.spec for product in self.products))

    def table(self, name: str) -> ManagedTable:
        if name in self.settings.products:
            return self.loaded_products.named(name).spec
        return self.topic(name)

    def topic(self, name: str) -> Topic:
        if name in self.settings.products:
            raise SettingsError(
                f"{name!r} is a product: it has no topic of its own.",
                f"Its rows come from other tables: tableflow products run {name}",
            )
        topic = self.settings.topic_named(name)
        if topic is None:
            raise SettingsError(
                f"No topic or pattern in the settings matches {name!r}.",
                "Add it under `topics:` in tableflow.yaml.",
            )
        return topic

    def existing_table(self, table: ManagedTable) -> Table:
        return existing_table(self.catalog, self.settings.state_dir, table)

    @cached_property
    def loaded_products(self) -> Products:
        """Those that can be used, and those that cannot, with the reason."""
        from tableflow_assets.product.load import load_products

        return load_products(self.settings)

    @property
    def products(self) -> tuple[Product, ...]:
        """Those that can be used, in an order in which each comes after those that it reads."""
        return self.loaded_products.usable

    def pipeline(self, topic: Topic) -> Pipeline:
        """A topic's table with its way from the log."""
        from tableflow_assets.pipeline import Pipeline

        return Pipeline(
            spec=topic,
            log=self.log,
            registry=self.registry,
            publisher=self.publisher,
            **self._connections(),
        )

    def runner(self, product: Product) -> Runner:
        """A product's table with its way from its inputs."""
        from tableflow_assets.product.runner import Runner

        return Runner(
            spec=product.spec, product=product, publisher=self.publisher, **self._connections()
        )

    def handle(self, table: ManagedTable) -> TableHandle:
        """Any table, for work that never touches the log."""
        from tableflow_assets.table.handle import TableHandle

        return TableHandle(spec=table, **self._connections())

    def _connections(self) -> _Connections:
        return {
            "catalog": self.catalog,
            "spark_catalog": self.settings.spark_catalog,
            "state_dir": self.settings.state_dir,
            "connect_spark": lambda: self.spark,
            "disk": connections.disk_space(self.settings),
        }


class _Connections(TypedDict):
    """What every handle of a table holds."""

    catalog: RestCatalog
    spark_catalog: str
    state_dir: Path
    connect_spark: Callable[[], SparkSession]
    disk: DiskSpace | None
