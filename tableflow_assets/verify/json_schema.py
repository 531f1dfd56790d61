"""Confluent-framed JSON with a schema, read with Python's json.

A column's type decides how a value is compared. The one thing it does not say is whether a text column
holds a string, or JSON text that is a string. The schema decides that, but only if it literally says
`string`; otherwise either is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Container
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple

from pyiceberg.types import IcebergType, ListType, MapType, StringType, StructType

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN, field_name
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.columns import JsonText, OrNull, OtherMembers
from tableflow_assets.verify.json_leaves import LEAVES, text_of
from tableflow_assets.verify.json_text import read_json
from tableflow_assets.verify.readers import (
    HEADER_BYTES,
    VALUE_COLUMN,
    Path,
    Reader,
    Row,
    Unreadable,
    framed_id,
    ids_of,
)
from tableflow_assets.verify.spark_json import json_identity

_COMPOSED = {"oneOf", "anyOf", "allOf", "$ref", "$dynamicRef", "$recursiveRef"}


class Content(NamedTuple):
    """A value, and the schema it was written with."""

    value: Any
    schema: Any


class JsonWithSchema(Reader):
    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._ids = ids_of(subject)
        self._document = cache(self._parsed)

    def schema_id(self, data: bytes) -> int:
        return framed_id(data, self._ids)

    def read(self, data: bytes) -> Content:
        document = self._document(self.schema_id(data))
        return Content(read_json(data[HEADER_BYTES:]), document)

    def as_column(self, content: Content, path: Path, kind: IcebergType) -> Any:
        if path == (VALUE_COLUMN,) and not self._is_record(content.value):
            path = ()
        value, own, schema = content.value, content.schema, self._newest
        for key in map(field_name, path):
            if value is None:
                return None
            value = _object(value).get(key)
            own = _properties(own, content.schema).get(key)
            schema = _properties(schema, self._newest).get(key)
        return _Typed(self._newest, content.schema).value(value, kind, schema, own)

    def as_row(self, content: Content, around: Path, row: StructType) -> Row:
        is_single = [f.name for f in row.fields] == [VALUE_COLUMN]
        if is_single and not self._is_record(content.value):
            return super().as_row(content, around, row)
        # The kind of a struct is not looked at where it is not the value's.
        return self.as_column(content, around, row) or {}

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        self.schema_id(data)
        return json_identity(data[HEADER_BYTES:])

    def _is_record(self, content: Any) -> bool:
        if _properties(self._newest, self._newest):
            return True
        # Its properties may be given in a way that is not followed here: then the content decides.
        root = _resolved(self._newest, self._newest) or self._newest
        is_composed = isinstance(root, dict) and bool(_COMPOSED & root.keys())
        return is_composed and isinstance(content, dict) and VALUE_COLUMN in content

    @property
    def _newest(self) -> Any:
        return self._document(self._subject.latest.schema_id)

    def _parsed(self, schema_id: int) -> Any:
        version = next(v for v in self._subject.versions if v.schema_id == schema_id)
        try:
            return json.loads(version.text)
        except (ValueError, RecursionError):
            return True  # says nothing


class _Typed:
    """``document``: the newest version's; ``written_with``: the record's own."""

    def __init__(self, document: Any, written_with: Any) -> None:
        self._document, self._written_with = document, written_with

    def value(self, value: Any, kind: IcebergType, schema: Any, own: Any) -> Any:
        """``schema`` and ``own``: what the newest version and the record's own say about the value."""
        if value is None:
            return None
        if isinstance(kind, StructType):
            return self._members(_object(value), kind, schema, own)
        if isinstance(kind, MapType):
            inside = _resolved(own, self._written_with).get("additionalProperties")
            entries = _object(value).items()
            return {key: self.value(v, kind.value_type, None, inside) for key, v in entries}
        if isinstance(kind, ListType):
            if not isinstance(value, list):
                raise Unreadable("no array")
            inside = _resolved(own, self._written_with).get("items")
            return [self.value(element, kind.element_type, None, inside) for element in value]
        if isinstance(kind, StringType):
            return self._text(value, schema)
        return LEAVES[type(kind)](value)

    def _members(self, content: Row, kind: StructType, schema: Any, own: Any) -> Row:
        properties, known = _properties(schema, self._document), self._known(content, own)
        kinds = {f.name: f.field_type for f in kind.fields}
        additional = kinds.pop(ADDITIONAL_COLUMN, None)
        keys = {field_name(name): name for name in kinds}
        row = {}
        for key, name in keys.items():
            inside = known.get(key)
            value = self.value(content.get(key), kinds[name], properties.get(key), inside)
            row[name] = value if value is None or key in known else OrNull(value)
        if isinstance(additional, MapType):
            others = {k: inner for k, inner in content.items() if k not in keys or k not in known}
            row[ADDITIONAL_COLUMN] = self._others(others, keys, additional.value_type)
        return row

    def _known(self, content: Row, own: Any) -> dict[str, Any]:
        """The members that the record's own version names; all of them, if it may do so otherwise."""
        target = _resolved(own, self._written_with)
        if not target or _COMPOSED & target.keys():
            return dict.fromkeys(content)
        return _properties(target, self._written_with)

    def _others(self, content: Row, keys: Container[str], kind: IcebergType) -> OtherMembers:
        members, late = {}, {}
        for key, value in content.items():
            if key not in keys:
                members[key] = self.value(value, kind, None, None)
                continue
            with suppress(Unreadable):  # never written in this way, then
                late[key] = self.value(value, kind, None, None)
        return OtherMembers(members, late)

    def _text(self, value: Any, schema: Any) -> Any:
        if _says_string(schema, self._document):
            return text_of(value)
        return JsonText(value, or_plain=isinstance(value, str))


def _resolved(schema: Any, document: Any) -> dict[str, Any]:
    """The schema behind references within the document; empty if there is none."""
    followed: set[str] = set()
    while isinstance(schema, dict) and isinstance(ref := schema.get("$ref"), str):
        if ref in followed or not ref.startswith("#"):
            return {}
        followed.add(ref)
        schema = document
        for part in filter(None, ref.removeprefix("#").split("/")):
            key = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(key) if isinstance(schema, dict) else None
    return schema if isinstance(schema, dict) else {}


def _properties(schema: Any, document: Any) -> dict[str, Any]:
    properties = _resolved(schema, document).get("properties")
    return properties if isinstance(properties, dict) else {}


def _says_string(schema: Any, document: Any) -> bool:
    target = _resolved(schema, document)
    kinds = target.get("type")
    non_null = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if kind != "null"]
    return non_null == ["string"] and not _COMPOSED & target.keys()


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("no object")
    return value
