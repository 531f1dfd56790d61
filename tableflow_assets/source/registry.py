"""The schema registry: which schemas a topic's values have been written with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import httpx
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tableflow_assets.errors import SchemaNotFound, ServerUnreachable, UnsupportedSchema

TIMEOUT_SECONDS = 10
T = TypeVar("T")


@dataclass(frozen=True)
class RegisteredSchema:
    schema_id: int
    version: int
    text: str


@dataclass(frozen=True)
class Subject:
    """All versions of a topic's value schema, oldest first."""

    name: str
    versions: tuple[RegisteredSchema, ...]

    @property
    def latest(self) -> RegisteredSchema:
        return self.versions[-1]


class Registry:
    def __init__(self, url: str) -> None:
        self.url = url
        self._client = SchemaRegistryClient(
            {"url": url, "timeout": TIMEOUT_SECONDS, "max.retries": 1}
        )

    def value_subject(self, topic: str) -> Subject:
        """The topic's value schemas, under Confluent's default subject name."""
        return self._subject(f"{topic}-value")

    def key_subject(self, topic: str) -> Subject | None:
        """The topic's key schemas; None where keys are plain bytes."""
        try:
            return self._subject(f"{topic}-key")
        except SchemaNotFound:
            return None

    def _subject(self, name: str) -> Subject:
        versions = self._ask(lambda: self._client.get_versions(name), name)
        return Subject(name, tuple(self._version(name, version) for version in sorted(versions)))

    def latest_version(self, topic: str) -> int | None:
        """The number of the newest value schema, or None where there is none: one cheap call."""
        name = f"{topic}-value"
        try:
            return int(max(self._ask(lambda: self._client.get_versions(name), name)))
        except SchemaNotFound:
            return None

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        found = self._ask(lambda: self._client.get_version(subject, version), subject)
        if found.schema.schema_type not in (None, "AVRO"):
            raise UnsupportedSchema(
                f"{subject} version {version} is {found.schema.schema_type}; this version of"
                " Tableflow Assets reads Avro.",
                "Leave the topic out of tableflow.yaml.",
            )
        if found.schema.references:
            raise UnsupportedSchema(
                f"{subject} version {version} refers to other subjects.",
                "Register the schema with its references written out.",
            )
        return RegisteredSchema(int(found.schema_id or 0), version, str(found.schema.schema_str))

    def _ask(self, question: Callable[[], T], subject: str) -> T:
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == httpx.codes.NOT_FOUND:
                raise SchemaNotFound(
                    f"The registry at {self.url} has no subject {subject!r}.",
                    "Register the topic's value schema, or leave the topic out of tableflow.yaml.",
                ) from error
            raise ServerUnreachable("The schema registry", self.url, str(error)) from error
        except (httpx.HTTPError, OSError) as error:
            raise ServerUnreachable("The schema registry", self.url, str(error)) from error
