"""The schema registry, Confluent's API."""

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
        """``access``: for a registry that lets everybody in, its address is enough."""
        self.access = RegistryAccess(access) if isinstance(access, str) else access
        self.url = self.access.url
        self._cache = SchemaCache(cache_folder, self.url) if cache_folder else None
        self._kept: tuple[str, SchemaRegistryClient] | None = None

    @property
    def _client(self) -> SchemaRegistryClient:
        """Another one whenever a secret or a certificate is another than before."""
        fingerprint = self.access.fingerprint()
        if self._kept is None or self._kept[0] != fingerprint:
            client = self.access.client({"timeout": TIMEOUT_SECONDS, "max.retries": 1})
            self._kept = fingerprint, client
        return self._kept[1]

    def subject(self, name: str) -> Subject:
        """All its versions; where the registry is away, those that were seen before."""
        known = self._cache.load(name) if self._cache else None
        try:
            subject = self._ask_for(name, known)
        except AccessRefused:
            raise  # it is there: somebody has to set this right, and would not notice otherwise
        except ServerUnreachable:
            if known is None or not known.versions:
                raise
            return known
        if self._cache and subject.versions != (known.versions if known else ()):
            self._cache.keep(subject)
        return subject

    def find_subject(self, name: str, *, may_trust_cache: bool = True) -> Subject | None:
        """None where the registry has none; where it is away, if it had none when last asked."""
        try:
            return self.subject(name)
        except SchemaNotFound:
            if self._cache:
                self._cache.keep(Subject(name, ()))
            return None
        except AccessRefused:
            raise
        except ServerUnreachable:
            known = self._cache.load(name) if self._cache and may_trust_cache else None
            if known is None:
                raise
            return None

    def latest_version(self, subject: str) -> int | None:
        """The number of its newest version, or None where there is none: one cheap call."""
        try:
            return int(max(self._ask(lambda: self._client.get_versions(subject), subject)))
        except SchemaNotFound:
            return None

    def has_schema(self, schema_id: int) -> bool:
        """Whether any subject has a schema of this id."""
        try:
            self._ask(lambda: self._client.get_schema(schema_id), f"schema {schema_id}")
        except SchemaNotFound:
            return False
        return True

    def _ask_for(self, name: str, known: Subject | None) -> Subject:
        registered = sorted(self._ask(lambda: self._client.get_versions(name), name))
        newest = self._version(name, registered[-1])
        seen = {version.version: version for version in known.versions} if known else {}
        if seen.get(newest.version, newest) != newest:
            seen = {}  # deleted for good and begun anew: its numbers mean other schemas now
        missing = [self._version(name, n) for n in registered[:-1] if n not in seen]
        versions = seen | {version.version: version for version in (*missing, newest)}
        # One that was deleted is still known, as if it was the oldest: its records may be in the log.
        ordered = sorted(versions, key=lambda number: (number in registered, number))
        return Subject(name, tuple(versions[number] for number in ordered))

    def _version(self, subject: str, version: int) -> RegisteredSchema:
        found = self._ask(lambda: self._client.get_version(subject, version), subject)
        kind: Any = found.schema.schema_type or "AVRO"
        if kind not in get_args(Kind):
            raise UnsupportedSchema(
                f"{subject} version {version} is {kind}; known are {', '.join(get_args(Kind))}.",
                "Leave the topic out of tableflow.yaml, or read its bytes: `value: raw`.",
            )
        texts: dict[str, str] = {}
        self._collect(found.schema.references or [], texts, subject, DEEPEST_REFERENCES)
        return RegisteredSchema(
            int(found.schema_id or 0),
            version,
            str(found.schema.schema_str),
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
            found = self._ask(partial(self._referenced, reference), reference.subject)
            texts[str(reference.name)] = str(found.schema.schema_str)
            self._collect(found.schema.references or [], texts, subject, depth - 1)

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
            raise self.access.named(str(error), error.http_status_code) from error
        except (httpx.HTTPError, OSError) as error:
            raise self.access.named(str(error)) from error
