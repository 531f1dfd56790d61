"""Confluent-framed Protobuf, read with google.protobuf: every record by its own version's schema."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import cache
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    StructType,
)

from tableflow_assets.decode.column_names import column_name
from tableflow_assets.source.subject import Subject
from tableflow_assets.verify.columns import JsonText, SomeText
from tableflow_assets.verify.readers import (
    HEADER_BYTES,
    Path,
    Reader,
    Unreadable,
    framed_id,
    ids_of,
)

_WRAPPER = "Value"  # google.protobuf.Int64Value and the like
_WRAPPED = ("Double", "Float", "Bool", "Int32", "Int64", "UInt32", "UInt64", "String", "Bytes")
_WRAPPERS = {f"google.protobuf.{kind}{_WRAPPER}" for kind in _WRAPPED}
_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_DATE, _ANY = "google.type.Date", "google.protobuf.Any"
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799  # years 1 to 9999
_LONGEST_VARINT = 10
_MORE = 0x80


class Protobuf(Reader):
    """Reads records of one subject. ``message``: their message's name; by default the newest's first."""

    def __init__(self, subject: Subject, message: str | None = None) -> None:
        self._subject = subject
        self._ids = ids_of(subject)
        self._version = cache(self._compiled)
        self._message = message

    def schema_id(self, data: bytes) -> int:
        return framed_id(data, self._ids)

    def read(self, data: bytes) -> Any:
        version = self._version(self.schema_id(data))
        indexes, at = _indexes(data)
        name = version.names.get(indexes, "")
        if not name or _simple(name) != _simple(self._message_name):
            raise Unreadable("its message index names another message, or none")
        try:
            return version.message(name).FromString(data[at:])
        except (DecodeError, ValueError, RecursionError) as error:
            raise Unreadable("not such a message") from error

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        try:
            return _at(content, path, kind)
        except (ValueError, json_format.Error, TypeError, DecodeError, RecursionError) as error:
            raise Unreadable("a value that no column holds") from error

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        """Message indexes and message: versions differ only in the schema's id."""
        self.read(data)
        return data[HEADER_BYTES:]

    @property
    def _message_name(self) -> str:
        return self._message or self._version(self._subject.latest.schema_id).names[(0,)]

    def _compiled(self, schema_id: int) -> _Version:
        # Only a topic with such schemas needs the compiler.
        from tableflow_assets.decode.protobuf.source import descriptors

        version = next(v for v in self._subject.versions if v.schema_id == schema_id)
        return _Version(descriptors(version.text, dict(version.references)))


class _Version:
    def __init__(self, descriptor_set: bytes) -> None:
        files = FileDescriptorSet.FromString(descriptor_set).file
        self._pool = DescriptorPool()
        for file in files:
            self._pool.Add(file)
        self.names = dict(_messages(files[-1]))  # by message indexes
        self.message = cache(self._class)

    def _class(self, name: str) -> Any:
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))


def _messages(file: FileDescriptorProto) -> Iterator[tuple[tuple[int, ...], str]]:
    def inside(
        messages: Any, scope: str, place: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], str]]:
        for index, message in enumerate(messages):
            name = f"{scope}.{message.name}" if scope else message.name
            yield (*place, index), name
            yield from inside(message.nested_type, name, (*place, index))

    messages: list[DescriptorProto] = list(file.message_type)
    return inside(messages, file.package, ())


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _indexes(data: bytes) -> tuple[tuple[int, ...], int]:
    """The message indexes after the header, and where the message begins."""
    count, at = _zigzag(data, HEADER_BYTES)
    if not 0 <= count <= len(data):
        raise Unreadable("too many message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for place, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        number |= (byte & 0x7F) << (7 * place)
        if byte < _MORE:
            return (number >> 1) ^ -(number & 1), at + place + 1
    raise Unreadable("its message index has no end")


def _at(message: Any, path: Path, kind: IcebergType) -> Any:
    if not path:
        return _message(message, kind)
    field = _field_of(message.DESCRIPTOR, path[0])
    if field is None:
        return None
    if len(path) == 1:
        return _field(message, field, kind)
    return (
        _at(getattr(message, field.name), path[1:], kind) if message.HasField(field.name) else None
    )


def _field_of(message: Descriptor, column: str) -> FieldDescriptor | None:
    by_column = {column_name(field.name): field for field in message.fields}
    return message.fields_by_name.get(column) or by_column.get(column)


def _field(message: Any, field: FieldDescriptor, kind: IcebergType) -> Any:
    if not field.is_repeated:
        if field.has_presence and not message.HasField(field.name):
            return None
        return _value(getattr(message, field.name), field, kind)
    values = getattr(message, field.name)
    if isinstance(kind, MapType):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return {
            _value(entry, key, kind.key_type): _value(values[entry], value, kind.value_type)
            for entry in values
        }
    if isinstance(kind, ListType):
        return [_value(element, field, kind.element_type) for element in values]
    raise TypeError(f"{field.full_name} is repeated, its column is not")


def _value(value: Any, field: FieldDescriptor, kind: IcebergType) -> Any:
    if field.message_type is not None:
        return _message(value, kind)
    if field.enum_type is not None:
        return _symbol(value, field)
    if isinstance(kind, DecimalType):
        return Decimal(value)
    if isinstance(kind, FloatType):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    if isinstance(kind, DoubleType):
        return float(value)
    return value.encode() if isinstance(kind, BinaryType) and isinstance(value, str) else value


def _symbol(number: int, field: FieldDescriptor) -> str:
    """The first of its names; a number that the schema does not have, as text."""
    return next((v.name for v in field.enum_type.values if v.number == number), str(number))


def _message(message: Any, kind: IcebergType) -> Any:
    name = message.DESCRIPTOR.full_name
    if name in _WRAPPERS:
        return _value(message.value, message.DESCRIPTOR.fields_by_name["value"], kind)
    if name in _SPECIAL:
        return _SPECIAL[name](message)
    if isinstance(kind, StructType):
        return {f.name: _at(message, (f.name,), f.field_type) for f in kind.fields}
    return True if isinstance(kind, BooleanType) else _json(message)


def _microseconds(message: Any) -> int:
    nanos = int(message.nanos)
    return int(message.seconds) * 1_000_000 + (nanos // 1000 if nanos >= 0 else -(-nanos // 1000))


def _timestamp(message: Any) -> int | None:
    micros = _microseconds(message)
    fits = _FIRST_SECOND * 1_000_000 <= micros < (_LAST_SECOND + 1) * 1_000_000
    return micros if fits else None


def _date(message: Any) -> int | None:
    try:
        day = date(message.year, message.month, message.day)
    except (ValueError, OverflowError):
        return None  # not every Date is a day of the calendar
    return (day - date(1970, 1, 1)).days


_SPECIAL = {_TIMESTAMP: _timestamp, _DURATION: _microseconds, _DATE: _date}


def _json(message: Any) -> JsonText | SomeText:
    """Protobuf's own mapping; an Any of an unknown type keeps its bytes."""
    pool = message.DESCRIPTOR.file.pool
    try:
        content = json_format.MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=pool
        )
    except (TypeError, DecodeError):
        if message.DESCRIPTOR.full_name != _ANY:
            return SomeText()  # it contains such an Any somewhere
        text = base64.b64encode(message.value).decode()
        content = {"@type": message.type_url, "value": text}
    return JsonText(content)
