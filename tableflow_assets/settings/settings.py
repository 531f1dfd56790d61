"""tableflow.yaml as frozen, typed settings.

An absent block means the embedded stack. A topic's options come from its own entry under `topics`,
then from `defaults`, then from the defaults written here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.settings.blocks import (
    Block,
    Dagster,
    DiskSize,
    Line,
    Namespace,
    Spark,
    Warehouse,
    Word,
)
from tableflow_assets.settings.catalogs import PublishingSettings
from tableflow_assets.settings.document import Problem, read_document, validated
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.names import (
    collisions,
    is_kafka_name,
    is_pattern,
    name_problem,
    product_name_problem,
    table_name,
)
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.rest import Catalog
from tableflow_assets.settings.security import Kafka, Registry
from tableflow_assets.settings.topic_options import TopicOptions

__all__ = ["Settings", "SettingsShape", "Topic", "TopicOptions", "load_settings"]


class Topic(TopicOptions, ManagedTable):
    """A Kafka topic with all its options resolved, and so its table."""

    @property
    def value_subject(self) -> str | None:
        """The subject of the values' schema; None if the registry does not describe them."""
        return self._subject("value", self.record) if self.value == "registry" else None

    @property
    def key_subject(self) -> str | None:
        """As above, for the keys. With `key: auto` the registry may not have it."""
        return self._subject("key", self.key_record) if self.key in ("auto", "registry") else None

    def _subject(self, part: str, record: str | None) -> str:
        if record is None or self.subject_name == "topic":
            return f"{self.name}-{part}"
        return record if self.subject_name == "record" else f"{self.name}-{record}"


class SettingsShape(Block):
    """The keys of tableflow.yaml."""

    state: Line = ".tableflow"
    kafka: Kafka | None = None
    registry: Registry | None = None
    warehouse: Warehouse | None = None
    catalog: Catalog | None = None
    spark: Spark | None = None
    dagster: Dagster = Dagster()
    # Of the disk with the embedded store. With less, nothing is ingested.
    min_free_disk: DiskSize = "1GB"
    namespace: Namespace = "tableflow"
    defaults: TopicOptions = TopicOptions()
    topics: Mapping[str, TopicOptions] = Field(default_factory=lambda: {"*": TopicOptions()})
    products: Mapping[str, ProductOptions] = Field(default_factory=dict)
    # Catalogs that show the tables, besides the one that owns them.
    catalogs: Mapping[Word, PublishingSettings] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        return {k: v for k, v in data.items() if v is not None or k not in cls.model_fields}

    @field_validator("topics", "products", mode="before")
    @classmethod
    def _empty_entry_sets_nothing(cls, entries: object) -> object:
        if not isinstance(entries, dict):
            return entries
        return {name: {} if options is None else options for name, options in entries.items()}


class Settings(SettingsShape):
    """The effective settings: what the file says, and where file and state are."""

    file: Path | None = None
    state_dir: Path

    @property
    def spark_catalog(self) -> str:
        """The catalog's name in the Spark server, embedded or not."""
        return self.spark.catalog if self.spark else "lake"

    @property
    def exact_topics(self) -> tuple[str, ...]:
        return tuple(name for name in self.topics if not is_pattern(name))

    @property
    def patterns(self) -> tuple[str, ...]:
        return tuple(name for name in self.topics if is_pattern(name))

    def topic_named(self, name: str) -> Topic | None:
        """The topic with its options, or None if the settings do not select it."""
        entry = self._entry_for(name)
        if entry is None:
            return None
        table_name(name)  # refuses an impossible table name now, not in the middle of a run
        return Topic(name=name, **dict(self.topics[entry].over(self.defaults)))

    def topics_among(self, names: Iterable[str]) -> tuple[Topic, ...]:
        """The topics named exactly, and those of the given names that match a pattern.

        A matched topic that cannot have a table of its own is left out (``left_out`` says why):
        a stray topic on the cluster must not stop the others. Of two that would share a table, the
        one named first gets it.
        """
        return tuple(sorted(self._usable(names)[0].values(), key=lambda topic: topic.name))

    def left_out(self, names: Iterable[str]) -> dict[str, str]:
        """Of the given names, those that match a pattern and still get no table, with the reason."""
        return self._usable(names)[1]

    def _usable(self, names: Iterable[str]) -> tuple[dict[str, Topic], dict[str, str]]:
        by_table: dict[str, Topic] = {}
        left_out: dict[str, str] = {}
        exact = sorted(self.exact_topics)
        for name in dict.fromkeys([*exact, *names]):
            try:
                topic = self.topic_named(name)
            except SettingsError as error:
                left_out[name] = error.problem
                continue
            if topic is not None and topic.table in self.products:
                left_out[name] = f"Its table {topic.table} is that of the product of this name."
            elif topic is not None and by_table.setdefault(topic.table, topic) is not topic:
                owner = by_table[topic.table].name
                left_out[name] = f"Its table {topic.table} is that of {owner!r}."
        return by_table, left_out

    def _entry_for(self, name: str) -> str | None:
        """The key under `topics` that decides: the name itself, else the first matching pattern."""
        if not is_kafka_name(name):
            return None
        if name in self.topics:
            return name
        if name.startswith("_"):  # internal to Kafka and its tools, such as __consumer_offsets
            return None
        return next((p for p in self.patterns if fnmatchcase(name, p)), None)

    def show(self) -> dict[str, object]:
        """The effective settings as JSON-able data; of secrets, only whether they are set."""
        stack = {"kafka", "registry", "warehouse", "catalog", "spark"}
        blocks = self.model_dump(mode="json", include=stack)
        return {
            "file": str(self.file) if self.file else None,
            "state": str(self.state_dir),
            "min_free_disk": self.min_free_disk,
            **{name: block or "embedded" for name, block in blocks.items()},
            "spark_catalog": self.spark_catalog,
            "dagster": self.dagster.model_dump(mode="json"),
            "namespace": self.namespace,
            "topics": {
                name: options.over(self.defaults).model_dump(mode="json")
                for name, options in self.topics.items()
            },
            "products": {
                name: options.model_dump(mode="json") for name, options in self.products.items()
            },
            "catalogs": {
                name: block.model_dump(mode="json", by_alias=True)
                for name, block in self.catalogs.items()
            },
        }


def load_settings(path: Path | None = None) -> Settings:
    """From the file given, else $TABLEFLOW_CONFIG, else ./tableflow.yaml, else the built-in."""
    file = _file_to_read(path)
    if file is None:
        return Settings(state_dir=_state_dir(Path.cwd(), SettingsShape().state))
    document = read_document(file)
    shape, problems = validated(SettingsShape, document.data)
    problems += [*document.problems, *_name_problems(document.data.get("topics"))]
    problems += _product_name_problems(document.data)
    if shape is not None:
        problems += _misfits(shape)
    if shape is None or problems:
        raise document.error(problems)
    file = file.absolute()
    return Settings(file=file, state_dir=_state_dir(file.parent, shape.state), **dict(shape))


def _file_to_read(path: Path | None) -> Path | None:
    if path is not None:
        return path
    if path_in_environment := os.environ.get("TABLEFLOW_CONFIG"):
        return Path(path_in_environment)
    default = Path("tableflow.yaml")
    return default if default.exists() else None


def _state_dir(base: Path, state: str) -> Path:
    folder = os.environ.get("TABLEFLOW_STATE") or state
    try:
        return (base / Path(folder).expanduser()).absolute()
    except RuntimeError as error:
        raise SettingsError(
            f"The state folder {folder!r} cannot be found: {error}",
            "Set `state` in tableflow.yaml, or TABLEFLOW_STATE, to a path without `~`.",
        ) from error


def _name_problems(topics: object) -> Iterator[Problem]:
    """What is wrong with the keys under `topics`, whatever their values are."""
    usable = []
    for name in topics if isinstance(topics, dict) else ():
        if problem := name_problem(name):
            yield Problem(("topics", name), problem)
        elif not is_pattern(name):
            usable.append(name)
    for first, second in collisions(usable):
        text = f"would share the table {table_name(first)} with topic {first!r}; keep one of them"
        yield Problem(("topics", second), text)


def _product_name_problems(data: Mapping[str, object]) -> Iterator[Problem]:
    topics, products = (data.get(part) for part in ("topics", "products"))
    names = [name for name in topics if not name_problem(name)] if isinstance(topics, dict) else []
    tables = {table_name(name): name for name in names if not is_pattern(name)}
    for name in products if isinstance(products, dict) else ():
        problem = product_name_problem(name)
        if not problem and name in tables:
            problem = (
                f"would share the table {name} with topic {tables[name]!r}; rename the product"
            )
        if problem:
            yield Problem(("products", name), problem)


def _misfits(shape: SettingsShape) -> Iterator[Problem]:
    """Options that are valid alone and contradict each other, for a topic or in the defaults."""
    of_defaults = list(shape.defaults.contradictions())
    yield from (Problem(("defaults", *option.split(".")), why) for option, why, _ in of_defaults)
    for name, entry in shape.topics.items():
        for option, why, instead in entry.over(shape.defaults).contradictions():
            key = option.split(".")
            if key[0] in entry.model_fields_set:
                yield Problem(("topics", name, *key), why)
            elif (option, why, instead) not in of_defaults:
                text = f"the defaults set `{option}`: {why}; set `{instead}` here"
                yield Problem(("topics", name), text)
    yield from _unknown_catalogs(shape)
    if shape.catalog is None:
        yield from _locations_with_embedded_catalog(shape)


def _locations_with_embedded_catalog(shape: SettingsShape) -> Iterator[Problem]:
    entries: dict[tuple[str, ...], TopicOptions] = {("defaults",): shape.defaults}
    entries |= {("topics", name): options for name, options in shape.topics.items()}
    for place, options in entries.items():
        if options.location is not None:
            why = "the embedded catalog keeps tables in its own bucket only: leave it out, or name your"
            yield Problem((*place, "location"), f"{why} own `catalog`")


def _unknown_catalogs(shape: SettingsShape) -> Iterator[Problem]:
    entries: list[tuple[tuple[str, ...], TopicOptions | ProductOptions]] = [
        (("defaults",), shape.defaults),
        *((("topics", name), options) for name, options in shape.topics.items()),
        *((("products", name), options) for name, options in shape.products.items()),
    ]
    for place, options in entries:
        if unknown := sorted(set(options.catalogs or ()) - set(shape.catalogs)):
            names = ", ".join(sorted(shape.catalogs)) or "none"
            yield Problem(
                (*place, "catalogs"), f"{unknown[0]!r} is not under `catalogs`; there: {names}"
            )
