"""The schemas that a topic's keys or values have been written with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["AVRO", "PROTOBUF", "JSON"]


@dataclass(frozen=True)
class RegisteredSchema:
    schema_id: int
    version: int
    text: str
    kind: Kind = "AVRO"
    # (name, text) of the schemas it refers to, directly or through others.
    references: tuple[tuple[str, str], ...] = ()

    @property
    def header(self) -> bytes:
        """What Confluent's serializers write before a value of this schema."""
        return b"\x00" + self.schema_id.to_bytes(4, "big")


@dataclass(frozen=True)
class Subject:
    """All versions, oldest first. ``is_from_cache``: the registry was down, so there may be newer ones."""

    name: str
    versions: tuple[RegisteredSchema, ...]
    is_from_cache: bool = False

    @property
    def latest(self) -> RegisteredSchema:
        return self.versions[-1]

    @property
    def kind(self) -> Kind:
        return self.latest.kind
