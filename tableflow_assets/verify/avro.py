"""Confluent-framed Avro, read with fastavro: the judge's own decoder.

Logical types stay what they are on the wire (a timestamp is a number, a decimal is bytes): nothing is
out of range, and nothing is rounded on the way.
"""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

import fastavro

from tableflow_assets.source.registry import RegisteredSchema, Subject

HEADER_BYTES = 5
LOGICAL = "logical"  # where a schema keeps its logical type, out of fastavro's sight


class Unreadable(Exception):
    """Bytes that are not what a schema of the subject says."""


class Avro:
    """A subject's values, or its keys.

    A field that a value was written without has the reader's default, if there is one. A key's is
    null: no later version makes another key of it.
    """

    def __init__(self, subject: Subject, *, of_keys: bool = False) -> None:
        # A replaced character makes no difference to an operation, but two keys into one.
        self._on_bad_text = "strict" if of_keys else "replace"
        self.versions = subject.versions
        self._by_id = {version.schema_id: version for version in subject.versions}
        self._reader = cache(lambda schema_id: _parsed(self._by_id[schema_id], _Optional(of_keys)))
        self._writer = cache(lambda schema_id: _parsed(self._by_id[schema_id], None))

    def schema_id(self, framed: bytes) -> int:
        """Of the schema that it was written with."""
        schema_id = int.from_bytes(framed[1:HEADER_BYTES], "big")
        if len(framed) < HEADER_BYTES or framed[0] != 0 or schema_id not in self._by_id:
            raise Unreadable
        return schema_id

    def read(self, framed: bytes, as_of: int | None = None) -> Any:
        """In the shape of the schema ``as_of``, by default the newest."""
        writer = self._writer(self.schema_id(framed))
        reader = self.shape(self.versions[-1].schema_id if as_of is None else as_of)
        try:
            return fastavro.schemaless_reader(
                io.BytesIO(framed[HEADER_BYTES:]),
                writer,
                reader,
                handle_unicode_errors=self._on_bad_text,
            )
        except Exception as error:  # malformed data breaks fastavro in every way there is
            raise Unreadable from error

    def write(self, content: Any, schema_id: int) -> bytes | None:
        """Framed; None where this version has no place for such a content."""
        body = io.BytesIO()
        try:
            fastavro.schemaless_writer(body, self._writer(schema_id), content)
        except Exception:  # as above
            return None
        return b"\x00" + schema_id.to_bytes(4, "big") + body.getvalue()

    def shape(self, schema_id: int) -> Any:
        """A version's schema, its names resolved, in which every field may be absent from the data."""
        return self._reader(schema_id)

    def since(self, schema_id: int) -> tuple[RegisteredSchema, ...]:
        """This version and all later ones."""
        ids = [version.schema_id for version in self.versions]
        return self.versions[ids.index(schema_id) :]


def names_of(shape: Any) -> dict[str, Any]:
    """Every named type of a parsed schema."""
    return shape["__named_schemas"] if isinstance(shape, dict) else {}


@dataclass(frozen=True)
class _Optional:
    """Makes a field one that may be absent from the data."""

    without_default: bool

    def __call__(self, field: dict[str, Any]) -> dict[str, Any]:
        if "default" in field and not self.without_default:
            return field
        kind = field["type"]
        branches = [one for one in (kind if isinstance(kind, list) else [kind]) if one != "null"]
        return field | {"type": ["null", *branches], "default": None}


def _parsed(version: RegisteredSchema, optional: _Optional | None) -> Any:
    return fastavro.parse_schema(_prepared(json.loads(version.text), optional))


def _prepared(schema: Any, optional: _Optional | None) -> Any:
    if isinstance(schema, list):
        return [_prepared(branch, optional) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    prepared = {LOGICAL if key == "logicalType" else key: value for key, value in schema.items()}
    for key in ("type", "items", "values"):
        if key in prepared:
            prepared[key] = _prepared(prepared[key], optional)
    if "fields" in prepared:
        fields = [_prepared(field, optional) for field in prepared["fields"]]
        prepared["fields"] = [optional(field) if optional else field for field in fields]
    return prepared
