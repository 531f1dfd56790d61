"""What the newest schema of a topic, or one that is not registered yet, does to its table.

Reads the registry and the catalog, changes nothing, and needs neither Kafka nor Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.base.errors import SchemaNotFound, TableflowError
from tableflow_assets.decode.schemas import key_of, value_of
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.subject import Kind, RegisteredSchema, Subject
from tableflow_assets.table.create import refuse_another_mode
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.schema_diff import SchemaDiff
from tableflow_assets.table.schema_fit import Fit

NOT_REGISTERED = -1  # the id of a schema that the registry does not have yet
KINDS: dict[str, Kind] = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


@dataclass(frozen=True)
class SchemaPlan:
    """``version``: of the values' subject; 0 where there is none, or none yet."""

    topic: str
    table: str
    has_table: bool
    subject: str | None
    version: int
    is_registered: bool
    diff: SchemaDiff

    def to_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__annotations__ if name != "diff"}
        return fields | {"fits": self.diff.fits, "changes": self.diff.to_json()}


def plan_schema(
    topic: Topic,
    registry: Registry,
    catalog: RestCatalog,
    state_dir: Path,
    candidate: Path | None = None,
) -> SchemaPlan:
    """``candidate``: a file with a schema, treated as if it were registered next."""
    subject = _subject(topic, registry)
    if candidate is not None:
        subject = _with_candidate(topic, subject, candidate)
    table = catalog.find(topic.table)
    if table is None:
        refuse_a_vanished_table(state_dir, topic, catalog.namespace)
    else:
        refuse_another_mode(table, topic)
    return SchemaPlan(
        topic=topic.name,
        table=f"{catalog.namespace}.{topic.table}",
        has_table=table is not None,
        subject=topic.value_subject,
        version=subject.latest.version if subject else 0,
        is_registered=candidate is None,
        diff=_diff(topic, registry, subject, table),
    )


def _subject(topic: Topic, registry: Registry) -> Subject | None:
    name = topic.value_subject
    subject = registry.find_subject(name) if name else None
    if name and subject and subject.is_from_cache:
        registry.latest_version(name)  # raises: a cached version may not be the newest
    return subject


def _with_candidate(topic: Topic, subject: Subject | None, file: Path) -> Subject:
    if topic.value_subject is None:
        raise TableflowError(
            f"No schema describes the values of {topic.name!r}: the settings say"
            f" `value: {topic.value}`.",
            "Leave out --schema, or set `value: registry` for the topic.",
        )
    versions = subject.versions if subject else ()
    newest = RegisteredSchema(
        NOT_REGISTERED,
        versions[-1].version + 1 if versions else 1,
        _text(file),
        _kind(file),
        versions[-1].references if versions else (),
    )
    return Subject(topic.value_subject, (*versions, newest))


def _kind(file: Path) -> Kind:
    if kind := KINDS.get(file.suffix):
        return kind
    raise TableflowError(
        f"{file.name} has none of the suffixes {', '.join(KINDS)}, which tell the kind of schema.",
        "Rename it: .avsc for Avro, .proto for Protobuf, .json for JSON Schema.",
    )


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TableflowError(
            f"{file} cannot be read: {error}", "Give the path of a schema file, in UTF-8."
        ) from error


def _diff(
    topic: Topic, registry: Registry, subject: Subject | None, table: Table | None
) -> SchemaDiff:
    fit = Fit(topic, key_of(topic, registry), table)
    if topic.value_subject is None:
        plain = value_of(topic, registry)
        return fit.diff(plain, plain)
    if subject is None:
        raise SchemaNotFound(
            f"The registry at {registry.url} has no subject {topic.value_subject!r}.",
            "Register the topic's value schema, or give one that you are about to: --schema FILE.",
        )
    return fit.diff_of(fit.versions(subject))
