"""The schema registry, by Confluent's API."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, get_args

import httpx
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from tableflow_assets.base.errors import (
    AccessRefused,
    SchemaNotFound,
    ServerUnreachable,
    UnsupportedSchema,
)
from tableflow_assets.source.registry_access import RegistryAccess
from tableflow_assets.source.schema_cache import SchemaCache
from tableflow_assets.source.subject import Kind, RegisteredSchema, Subject

TIMEOUT_SECONDS = 10
DEEPEST_REFERENCES = 20
T = TypeVar("T")


class Registry:
    def __init__(self, access: RegistryAccess | str, cache_folder: Path | None = None) -> None:
        """``access``: for a registry without security, its address is enough."""
        self.access = RegistryAccess(access) if isinstance(access, str) else access
        self.url = self.access.url
        self._cache = SchemaCache(cache_folder, self.url) if cache_folder else None
        self._current: tuple[str, SchemaRegistryClient] | None = None  # with its fingerprint

    @property
    def _client(self) -> SchemaRegistryClient:
        """A new one whenever a secret or a certificate has changed."""
        fingerprint = self.access.fingerprint()
        if self._current is None or self._current[0] != fingerprint:
            client = self.access.client({"timeout": TIMEOUT_SECONDS, "max.retries": 1})
            self._current = fingerprint, client
        return self._current[1]

    def subject(self, name: str) -> Subject:
        """All its versions; while the registry is unreachable, those seen before."""
        cached = self._cache.load(name) if self._cache else None
        try:
            subject = self._fetch(name, cached)
        except AccessRefused:
            raise  # not an outage: somebody has to fix this, and would not notice it otherwise
        except ServerUnreachable:
            if cached is None or not cached.versions:
                raise
            return cached
        if self._cache and subject.versions != (cached.versions if cached else ()):
            self._cache.keep(subject)
        return subject

    def find_subject(self, name: str, *, may_trust_cache: bool = True) -> Subject | None:
        """None if the registry has none, or had none when last asked and is unreachable now."""
        try:
            return self.subject(name)
        except SchemaNotFound:
            if self._cache:
                self._cache.keep(Subject(name, ()))
            return None
        except AccessRefused:
            raise
        except ServerUnreachable:
            cached = self._cache.load(name) if self._cache and may_trust_cache else None
            if cached is None:
                raise
            return None

    def latest_version(self, subject: str) -> int | None:
        """The number of its newest version, or None if it has none: one cheap call."""
        try:
            return int(max(self._ask(lambda: self._client.get_versions(subject), subject)))
        except SchemaNotFound:
            return None

    def has_schema(self, schema_id: int) -> bool:
        """Whether any subject has a schema with this id."""
        try:
            self._ask(lambda: self._client.get_schema(schema_id), f"schema {schema_id}")
        except SchemaNotFound:
            return False
        return True

    def _fetch(self, name: str, cached: Subject | None) -> Subject:
        numbers = sorted(self._ask(lambda: self._client.get_versions(name), name))
        newest = self._version(name, numbers[-1])
        versions = {version.version: version for version in cached.versions} if cached else {}
        if versions.get(newest.version, newest) != newest:
            versions = {}  # deleted for good and created again: the numbers mean other schemas now
        uncached = [self._version(name, n) for n in numbers[:-1] if n not in versions]
        versions |= {version.version: version for version in (*uncached, newest)}
        # Deleted versions stay, sorted before all others: their records may still be in the log.
        ordered = sorted(versions, key=lambda number: (number in numbers, number))
        return Subject(name, tuple(versions[number] for number in ordered))

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        answer = self._ask(lambda: self._client.get_version(subject, version), subject)
        kind: Any = answer.schema.schema_type or "AVRO"
        if kind not in get_args(Kind):
            raise UnsupportedSchema(
                f"{subject} version {version} is {kind}; supported are {', '.join(get_args(Kind))}.",
                "Leave the topic out of tableflow.yaml, or read its bytes: `value: raw`.",
            )
        texts: dict[str, str] = {}
        self._collect(answer.schema.references or [], texts, subject, DEEPEST_REFERENCES)
        return RegisteredSchema(
            int(answer.schema_id or 0),
            version,
            str(answer.schema.schema_str),
            kind,
            tuple(texts.items()),
        )

    def _collect(self, references: Any, texts: dict[str, str], subject: str, depth: int) -> None:
        if references and not depth:
            raise UnsupportedSchema(
                f"The references of {subject} go deeper than {DEEPEST_REFERENCES} schemas.",
                "Register a schema with fewer levels of references.",
            )
        for reference in references:
            if reference.name in texts:
                continue
            answer = self._ask(partial(self._referenced, reference), reference.subject)
            texts[str(reference.name)] = str(answer.schema.schema_str)
            self._collect(answer.schema.references or [], texts, subject, depth - 1)

    def _referenced(self, reference: Any) -> Any:
        return self._client.get_version(reference.subject, reference.version)

    def _ask(self, question: Callable[[], T], subject: str) -> T:
        try:
            return question()
        except SchemaRegistryError as error:
            if error.http_status_code == httpx.codes.NOT_FOUND:
                raise SchemaNotFound(
                    f"The registry at {self.url} has no subject {subject!r}.",
                    "Register the topic's value schema, or leave the topic out of tableflow.yaml.",
                ) from error
            raise self.access.error(str(error), error.http_status_code) from error
        except (httpx.HTTPError, OSError) as error:
            raise self.access.error(str(error)) from error
