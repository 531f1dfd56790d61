"""The products of the settings, each with its definition and with what it reads."""

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
        read = self.topic.table if self.topic else self.product and self.product.name
        return str(read)

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
        options, time = self.options, self.definition.header.event_time
        return ManagedTable(
            name=self.name,
            description=self.definition.header.description,
            partition_by=(f"days(`{time.replace('`', '``')}`)",),
            formats=options.formats,
            owners=options.owners,
            group=options.group,
            target_file_size=options.target_file_size,
            keep_snapshots=options.keep_snapshots,
            compaction=options.compaction,
            maintenance=options.maintenance,
            catalogs=options.catalogs,
        )

    @property
    def versions_by_input(self) -> dict[str, tuple[str, ...]]:
        """Of inputs that hold every state of something: of what."""
        found = {one.name: one.source("").versions for one in self.inputs}
        return {name: versions.key for name, versions in found.items() if versions}

    @property
    def upstream(self) -> tuple[Product, ...]:
        return tuple(one.product for one in self.inputs if one.product is not None)


def products_of(settings: Settings) -> tuple[Product, ...]:
    """In an order in which each comes after those that it reads."""
    found = {name: _definition(settings, name) for name in settings.products}
    reads = {
        name: set(_meant(settings, one).values()) & found.keys() for name, one in found.items()
    }
    try:
        order = tuple(TopologicalSorter(reads).static_order())
    except CycleError as error:
        circle = " → ".join(error.args[1])
        raise SettingsError(
            f"The products read each other in a circle: {circle}.", "Break the circle."
        ) from None
    known: dict[str, Product] = {}
    for name in order:
        inputs = tuple(_inputs(settings, found[name], known))
        _refuse_what_spark_could_not_be_told(found[name], inputs)
        known[name] = Product(name, settings.products[name], found[name], inputs)
    return tuple(known.values())


def _refuse_what_spark_could_not_be_told(definition: Definition, inputs: Sequence[Input]) -> None:
    """Now, and not in mid-run."""
    sources = {one.name: one.source(one.table) for one in inputs}
    changed = {CHANGED: flink.Source(CHANGED, is_topic=False)}
    itself = {ITSELF: flink.Source(ITSELF, is_topic=False)}
    queries = [one for one in definition.header.changes.values() if isinstance(one, str)]
    try:
        flink.in_spark(definition.statement, sources)
        for query in queries:
            flink.in_spark(flink.parse(query), sources | changed)
        for query in definition.header.checks.values():
            flink.in_spark(flink.parse(query), sources | itself)
    except (ValueError, KeyError) as error:
        raise unusable(definition.name, str(error)) from None


def _meant(settings: Settings, definition: Definition) -> dict[str, str]:
    renamed = settings.products[definition.name].inputs
    if unknown := sorted(set(renamed) - set(definition.inputs)):
        raise SettingsError(
            f"The product {definition.name!r} does not read {unknown[0]!r}.",
            f"Under its `inputs`, rename one of these: {', '.join(definition.inputs)}.",
        )
    return {name: renamed.get(name, name) for name in definition.inputs}


def _inputs(settings: Settings, definition: Definition, known: dict[str, Product]) -> list[Input]:
    inputs = []
    for name, meant in _meant(settings, definition).items():
        if meant in known:
            inputs.append(Input(name, product=known[meant]))
        elif (topic := settings.topic_named(meant)) is not None:
            inputs.append(Input(name, topic=topic))
        else:
            raise SettingsError(
                f"The product {definition.name!r} reads {meant!r}, which is neither a product nor a"
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
