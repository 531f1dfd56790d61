"""Which serialization reads a topic's values, and which its keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.avro.avro import Avro
from tableflow_assets.decode.json.json import Json, JsonWithSchema
from tableflow_assets.decode.plain import Raw, Text
from tableflow_assets.decode.protobuf.protobuf import Protobuf
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.subject import Subject

_WITHOUT_REGISTRY: dict[str, Callable[[], Serialization]] = {
    "json": Json,
    "string": Text,
    "raw": Raw,
}


@dataclass(frozen=True)
class Schemas:
    value: Serialization
    key: Serialization
    left_out: frozenset[int] = frozenset()  # ids of value schemas that do not fit the table

    @property
    def subject(self) -> Subject | None:
        return self.value.subject

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of all schemas that a value may have been written with."""
        versions = self.subject.versions if self.subject else ()
        return tuple(version.schema_id for version in versions)

    def for_records(self, records: DataFrame) -> Schemas:
        """The same, to read the columns `value` and `key` of these records alone."""
        value, key = self.value.for_records(records, "value"), self.key.for_records(records, "key")
        return replace(self, value=value, key=key)

    @property
    def registry_was_away(self) -> bool:
        """If so, there may be newer versions, and an unknown schema id is not necessarily wrong."""
        subjects = (self.value.subject, self.key.subject)
        return any(subject is not None and subject.is_from_cache for subject in subjects)


def value_of(topic: Topic, registry: Registry) -> Serialization:
    if topic.value_subject is None:
        return _WITHOUT_REGISTRY[topic.value]()
    return described_by(registry.subject(topic.value_subject), topic.record)


def key_of(topic: Topic, registry: Registry) -> Serialization:
    if topic.key_subject is None:
        return _WITHOUT_REGISTRY[topic.key]()
    if topic.key == "registry":
        return _unless_empty(described_by(registry.subject(topic.key_subject), topic.key_record))
    # In a keyed table a key read without its schema would be another row, so the cache is not enough.
    subject = registry.find_subject(topic.key_subject, may_trust_cache=not topic.is_keyed)
    return Raw() if subject is None else _unless_empty(described_by(subject, topic.key_record))


def _unless_empty(keys: Serialization) -> Serialization:
    """Where all keys are alike, their bytes say it all."""
    return Raw() if keys.holds_nothing else keys


def described_by(subject: Subject, record: str | None = None) -> Serialization:
    kinds = {version.kind for version in subject.versions}
    if len(kinds) > 1:
        raise UnsupportedSchema(
            f"The versions of {subject.name} are of several kinds: {', '.join(sorted(kinds))}.",
            "Use a subject, and a topic, of its own for each kind of schema.",
        )
    if subject.kind == "PROTOBUF":
        return Protobuf(subject, record)
    return Avro(subject) if subject.kind == "AVRO" else JsonWithSchema(subject)
