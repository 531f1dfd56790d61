"""The products of the settings, each with its definition and its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.product import flink
from tableflow_assets.product.definition import CHANGED, ITSELF, Definition, parse, unusable
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings, Topic


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


def products_of(settings: Settings) -> tuple[Product, ...]:
    """Ordered so that each product comes after those it reads."""
    definitions = {name: _definition(settings, name) for name in settings.products}
    reads = {
        name: set(_input_targets(settings, definition).values()) & definitions.keys()
        for name, definition in definitions.items()
    }
    try:
        order = tuple(TopologicalSorter(reads).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise SettingsError(
            f"The products read each other in a circle: {circle}.", "Break the circle."
        ) from None
    products: dict[str, Product] = {}
    for name in order:
        inputs = tuple(_inputs(settings, definitions[name], products))
        _refuse_untranslatable(definitions[name], inputs)
        products[name] = Product(name, settings.products[name], definitions[name], inputs)
    return tuple(products.values())


def _refuse_untranslatable(definition: Definition, inputs: Sequence[Input]) -> None:
    """Fail when the settings are loaded, rather than in the middle of a run."""
    sources = {
        source_input.name: source_input.source(source_input.table) for source_input in inputs
    }
    changed_rows = {CHANGED: flink.Source(CHANGED, is_topic=False)}
    itself = {ITSELF: flink.Source(ITSELF, is_topic=False)}
    changes = definition.header.changes.values()
    queries = [affects for affects in changes if isinstance(affects, str)]
    try:
        flink.in_spark(definition.statement, sources)
        for query in queries:
            flink.in_spark(flink.parse(query), sources | changed_rows)
        for query in definition.header.checks.values():
            flink.in_spark(flink.parse(query), sources | itself)
    except (ValueError, KeyError) as error:
        raise unusable(definition.name, str(error)) from None


def _input_targets(settings: Settings, definition: Definition) -> dict[str, str]:
    renamed = settings.products[definition.name].inputs
    if unknown := sorted(set(renamed) - set(definition.inputs)):
        raise SettingsError(
            f"The product {definition.name!r} does not read {unknown[0]!r}.",
            f"Under its `inputs`, rename one of these: {', '.join(definition.inputs)}.",
        )
    return {name: renamed.get(name, name) for name in definition.inputs}


def _inputs(
    settings: Settings, definition: Definition, products: dict[str, Product]
) -> list[Input]:
    inputs = []
    for name, target in _input_targets(settings, definition).items():
        if target in products:
            inputs.append(Input(name, product=products[target]))
        elif (topic := settings.topic_named(target)) is not None:
            inputs.append(Input(name, topic=topic))
        else:
            raise SettingsError(
                f"The product {definition.name!r} reads {target!r}, which is neither a product nor a"
                " topic of the settings.",
                "Add it to `topics` or `products` in tableflow.yaml, or say under the product's"
                " `inputs` what is meant.",
            )
    return inputs


def _definition(settings: Settings, name: str) -> Definition:
    file = settings.products[name].sql or name
    if not file.endswith(".sql"):
        built_in = files("tableflow_assets.product").joinpath("sql", f"{file}.sql")
        if not built_in.is_file():
            raise SettingsError(
                f"The product {name!r} has no SQL: the labs have no product {file!r}.",
                f"Set `products.{name}.sql` to the path of its .sql file.",
            )
        return parse(name, built_in.read_text("utf-8"))
    path = (settings.file.parent if settings.file else Path.cwd()) / file
    try:
        return parse(name, path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The SQL of the product {name!r} cannot be read: {error}",
            f"Set `products.{name}.sql` to a path that is right from the folder of tableflow.yaml.",
        ) from None
