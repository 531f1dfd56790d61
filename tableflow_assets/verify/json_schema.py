"""Confluent-framed JSON with a schema, read with Python's json.

A column's type decides how a value is compared. The one thing it does not say is whether a text column
holds a string, or JSON text that is a string. The schema decides that, but only if it literally says
`string`; otherwise either is accepted.
"""

from __future__ import annotations

import base64
import json
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestamptzType,
)

from tableflow_assets.decode.column_names import field_name
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.columns import JsonText
from tableflow_assets.verify.json_text import Fraction, read_json
from tableflow_assets.verify.readers import (
    HEADER_BYTES,
    VALUE_COLUMN,
    Path,
    Unreadable,
    framed_id,
)
from tableflow_assets.verify.spark_json import json_identity

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)
_COMPOSED = {"oneOf", "anyOf", "allOf", "$ref", "$dynamicRef", "$recursiveRef"}
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class JsonWithSchema:
    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def schema_id(self, data: bytes) -> int:
        return framed_id(data, self._subject)

    def read(self, data: bytes) -> Any:
        self.schema_id(data)
        return read_json(data[HEADER_BYTES:])

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        schema = self._newest
        if path == (VALUE_COLUMN,) and not self._is_record(content):
            path = ()
        keys = tuple(map(field_name, path))
        for key in keys:
            if content is None:
                return None
            content = _object(content).get(key)
            schema = _properties(schema, self._newest).get(key)
        return _Typed(self._newest).value(content, kind, schema)

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

    @cached_property
    def _newest(self) -> Any:
        try:
            return json.loads(self._subject.latest.text)
        except (ValueError, RecursionError):
            return True  # says nothing


class _Typed:
    def __init__(self, document: Any) -> None:
        self._document = document

    def value(self, value: Any, kind: IcebergType, schema: Any) -> Any:
        if value is None:
            return None
        if isinstance(kind, StructType):
            content, properties = _object(value), _properties(schema, self._document)
            keys = ((f, field_name(f.name)) for f in kind.fields)
            return {
                f.name: self.value(content.get(key), f.field_type, properties.get(key))
                for f, key in keys
            }
        if isinstance(kind, MapType):
            return {k: self.value(v, kind.value_type, None) for k, v in _object(value).items()}
        if isinstance(kind, ListType):
            if not isinstance(value, list):
                raise Unreadable("no array")
            return [self.value(element, kind.element_type, None) for element in value]
        if isinstance(kind, StringType):
            return self._text(value, schema)
        return _LEAVES[type(kind)](value)

    def _text(self, value: Any, schema: Any) -> Any:
        if _says_string(schema, self._document):
            return _string(value)
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


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable("no string")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unreadable("neither true nor false")
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        if isinstance(value, Fraction):
            value = _number(value)
            value = int(value) if value.is_integer() else None
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unreadable("no whole number")
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise Unreadable("too large a number")
        return value

    return whole


def _number(value: Any) -> float:
    if isinstance(value, Fraction):
        return float(value.text)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable("no number")
    try:
        return float(value)
    except OverflowError:
        raise Unreadable("too large a number") from None


def _small_number(value: Any) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", _number(value)))[0])
    except OverflowError:
        raise Unreadable("too large a number") from None


def _day(value: Any) -> int:
    if not isinstance(value, str):
        return _whole(32)(value)  # days since 1970: Kafka Connect's
    try:
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    except ValueError:
        raise Unreadable("no date") from None


def _moment(value: Any) -> int:
    if not isinstance(value, str):
        return _whole(64)(value) * 1000  # milliseconds since 1970: Kafka Connect's
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise Unreadable("no date and time")
    offset = "+00:00" if (match[4] or "Z") in "Zz" else match[4]
    try:
        moment = datetime.fromisoformat(f"{match[1]}T{match[2]}{offset}")
    except ValueError:
        raise Unreadable("no date and time") from None
    return (moment - _EPOCH) // _MICROSECOND + int((match[3] or "")[:6].ljust(6, "0"))


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_string(value), validate=True)
    except ValueError:
        raise Unreadable("not base64") from None


_LEAVES: dict[type, Callable[[Any], Any]] = {
    BooleanType: _boolean,
    IntegerType: _whole(32),
    LongType: _whole(64),
    FloatType: _small_number,
    DoubleType: _number,
    DateType: _day,
    TimestamptzType: _moment,
    BinaryType: _bytes,
}
