"""Schemas seen before, on disk, so that their records can be read while the registry is down.

A schema id never changes its meaning, so what is cached stays true. A version that the registry has
deleted stays too: its records may still be in the log.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from tableflow_assets.base.files import replace_file
from tableflow_assets.source.subject import RegisteredSchema, Subject

_VERSIONS = TypeAdapter(tuple[RegisteredSchema, ...])


class SchemaCache:
    def __init__(self, folder: Path, registry_url: str) -> None:
        # Two registries may give the same id to different schemas.
        self._folder = folder / hashlib.sha256(registry_url.encode()).hexdigest()[:16]

    def load(self, subject: str) -> Subject | None:
        try:
            versions = _VERSIONS.validate_json(self._file(subject).read_bytes())
        except (
            OSError,
            ValidationError,
        ):  # none yet, or written by another version of this program
            return None
        return Subject(subject, versions, is_from_cache=True)

    def keep(self, subject: Subject) -> None:
        replace_file(self._file(subject.name), _VERSIONS.dump_json(subject.versions))

    def _file(self, subject: str) -> Path:
        # By hash: a subject may have a name that no file may have.
        return self._folder / f"{hashlib.sha256(subject.encode()).hexdigest()[:32]}.json"
