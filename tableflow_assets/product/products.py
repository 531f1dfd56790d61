"""A product of the settings, with its definition and its inputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tableflow_assets.product import flink
from tableflow_assets.product.definition import Definition
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Topic


@dataclass(frozen=True)
class Input:
    """What the product's SQL calls ``name``: a topic, or another product."""

    name: str
    topic: Topic | None = None
    product: Product | None = None

    @property
    def table(self) -> str:
        table = self.topic.table if self.topic else self.product and self.product.name
        return str(table)

    def source(self, view: str) -> flink.Source:
        """``view``: where Spark finds the input's rows."""
        if self.product is None:
            return flink.Source(view, is_topic=True)
        header = self.product.definition.header
        versions = flink.Versions(header.versions_of, header.event_time)
        return flink.Source(view, is_topic=False, versions=versions if versions.key else None)


@dataclass(frozen=True)
class Product:
    name: str
    options: ProductOptions
    definition: Definition
    inputs: tuple[Input, ...]

    @cached_property
    def spec(self) -> ManagedTable:
        """Its table, which is kept like any other: one window per day of its event time."""
        time = self.definition.header.event_time
        return ManagedTable(
            name=self.name,
            description=self.definition.header.description,
            partition_by=(f"days(`{time.replace('`', '``')}`)",),
            **self.options.model_dump(exclude={"sql", "inputs"}),
        )

    @property
    def versions_by_input(self) -> dict[str, tuple[str, ...]]:
        """For inputs that keep every version of an entity, the entity's key."""
        versions_of = {
            source_input.name: source_input.source("").versions for source_input in self.inputs
        }
        return {name: versions.key for name, versions in versions_of.items() if versions}

    @property
    def upstream(self) -> tuple[Product, ...]:
        return tuple(
            source_input.product for source_input in self.inputs if source_input.product is not None
        )
