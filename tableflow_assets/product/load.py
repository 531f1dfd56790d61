"""The products of the settings, from their .sql files: those that can be used, and those that cannot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from pathlib import Path

from tableflow_assets.base.errors import SettingsError, TableflowError
from tableflow_assets.product import flink
from tableflow_assets.product.definition import CHANGED, ITSELF, Definition, parse
from tableflow_assets.product.products import Input, Product
from tableflow_assets.product.sql_file import SqlFile
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings


@dataclass(frozen=True)
class BrokenProduct:
    """A product of the settings that cannot be used, and why. Its table, if it has one, stays as it is."""

    name: str
    options: ProductOptions
    error: TableflowError


@dataclass(frozen=True)
class Products:
    """``usable``: ordered so that each product comes after those it reads."""

    usable: tuple[Product, ...]
    broken: tuple[BrokenProduct, ...] = ()

    def named(self, name: str) -> Product:
        """Raises the product's own error if it is broken."""
        for broken in self.broken:
            if broken.name == name:
                raise broken.error
        return next(product for product in self.usable if product.name == name)

    def following(self, table: str) -> tuple[str, ...]:
        """The products that are made of a table, and those that are made of these."""
        names: list[str] = []
        for product in self.usable:
            if {table, *names} & {source.table for source in product.inputs}:
                names.append(product.name)
        return tuple(names)


def load_products(settings: Settings) -> Products:
    """One product's mistake is its own, and that of the products that read it."""
    loader = _Loader(settings)
    for name in loader.in_order():
        loader.load(name)
    return loader.products()


class _Loader:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._usable: dict[str, Product] = {}
        self._errors: dict[str, TableflowError] = {}
        self._definitions: dict[str, Definition] = {}
        for name in settings.products:
            with self._own_mistakes(name):
                self._definitions[name] = _definition(settings, name)

    def in_order(self) -> list[str]:
        """Those with a definition, each after the ones it reads; without those in a circle."""
        reads: dict[str, set[str]] = {}
        for name, definition in self._definitions.items():
            with self._own_mistakes(name):
                targets = _input_targets(self._settings, definition).values()
                reads[name] = set(targets) & self._definitions.keys()
        while True:
            try:
                order = TopologicalSorter(reads).static_order()
                return [name for name in order if name in reads]
            except CycleError as error:
                circle = error.args[1]
                text = f"The products read each other in a circle: {' → '.join(circle)}."
                for name in circle:
                    self._errors[name] = SettingsError(text, "Break the circle.")
                    reads.pop(name, None)

    def load(self, name: str) -> None:
        with self._own_mistakes(name):
            definition = self._definitions[name]
            inputs = tuple(_inputs(self._settings, definition, self._usable))
            _refuse_untranslatable(definition, inputs)
            options = self._settings.products[name]
            self._usable[name] = Product(name, options, definition, inputs)

    def products(self) -> Products:
        broken = [
            BrokenProduct(name, options, self._errors[name])
            for name, options in self._settings.products.items()
            if name in self._errors
        ]
        return Products(tuple(self._usable.values()), tuple(broken))

    @contextmanager
    def _own_mistakes(self, name: str) -> Iterator[None]:
        try:
            yield
        except TableflowError as error:
            self._errors[name] = error
        except Exception as error:  # a parser may stumble over anything that people write
            self._errors[name] = SettingsError(
                f"The product {name!r} cannot be used: {type(error).__name__}: {error}",
                "Simplify its .sql file; docs/add-a-product.md shows a whole one.",
            )


def _refuse_untranslatable(definition: Definition, inputs: Sequence[Input]) -> None:
    """Fail when the settings are loaded, rather than in the middle of a run."""
    sources = {
        source_input.name: source_input.source(source_input.table) for source_input in inputs
    }
    changed_rows = {CHANGED: flink.Source(CHANGED, is_topic=False)}
    itself = {ITSELF: flink.Source(ITSELF, is_topic=False)}
    header, file = definition.header, definition.file
    with _at(file, file.line_of_word("SELECT", file.text.index("*/")) or 1):
        flink.in_spark(definition.statement, sources)
    for name, affects in header.changes.items():
        if isinstance(affects, str):
            with _at(file, file.line_of_key("changes", name)):
                flink.in_spark(flink.parse(affects), sources | changed_rows)
    for name, query in header.checks.items():
        with _at(file, file.line_of_key("checks", name)):
            flink.in_spark(flink.parse(query), sources | itself)


@contextmanager
def _at(file: SqlFile, line: int) -> Iterator[None]:
    try:
        yield
    except KeyError as error:  # a name that is no input
        raise file.unusable(f"{error} is not read by the SELECT", line) from None
    except ValueError as error:
        raise file.unusable(str(error), line) from None


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
        elif target in settings.products:
            raise SettingsError(
                f"The product {definition.name!r} reads {target!r}, which cannot be used.",
                f"See what is wrong with it: tableflow products show {target}",
            )
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
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"The SQL of the product {name!r} cannot be read: {error}",
            f"Set `products.{name}.sql` to a path that is right from the folder of tableflow.yaml.",
        ) from None
    return parse(name, text, str(path))
