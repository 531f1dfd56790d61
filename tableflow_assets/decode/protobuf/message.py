"""Reads the shape of a row from a message's descriptor; the table of types is in `protobuf/shape`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from tableflow_assets.decode.column_names import column_name
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.protobuf.shape import Field, Leaf, ListOf, MapOf, Shape, Struct

MOST_COLUMNS = 10_000
MOST_LEVELS = 50
# The decoder's memory grows with the largest field number: 8 GB for the largest that Protobuf allows.
LARGEST_NUMBER = 1_000_000

_F = FieldDescriptor
KINDS: dict[int, str] = {
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_FLOAT: "float",
    _F.TYPE_BOOL: "boolean",
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), "int"),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), "long"),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), "long"),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), "unsigned"),
    **dict.fromkeys((_F.TYPE_STRING, _F.TYPE_ENUM), "string"),
    _F.TYPE_BYTES: "binary",
}
_MESSAGES = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "google.protobuf.DoubleValue": "double",
    "google.protobuf.FloatValue": "float",
    "google.protobuf.BoolValue": "boolean",
    "google.protobuf.Int32Value": "int",
    "google.protobuf.Int64Value": "long",
    "google.protobuf.UInt32Value": "long",
    "google.protobuf.UInt64Value": "unsigned",
    "google.protobuf.StringValue": "string",
    "google.protobuf.BytesValue": "binary",
    "google.type.Date": "date",
    "google.protobuf.Any": "json",
}


class ShapeReader:
    """Reads the messages of one version of a subject."""

    def __init__(self, builder: ColumnBuilder, docs: Mapping[str, str]) -> None:
        self._builder = builder
        self._docs = docs
        self._structs: dict[str, Struct] = {}
        self._columns: dict[str, int] = {}

    def struct(self, message: Descriptor, path: Path = ()) -> Struct:
        struct = self._structs.get(message.full_name)
        if struct is None:
            if len(path) > MOST_LEVELS:
                raise self._builder.unsupported(path, f"it is more than {MOST_LEVELS} levels deep")
            # In the order of the schema, not by number.
            fields = tuple(self._field(field, (*path, field.name)) for field in message.fields)
            struct = self._structs[message.full_name] = Struct(message.full_name, fields)
            self._refuse_too_many(message, path)
        return struct

    def _refuse_too_many(self, message: Descriptor, path: Path) -> None:
        # Messages used twice at each of many levels become exponentially many columns.
        number = sum(1 + self._columns.get(_name_of_type(field), 0) for field in message.fields)
        if number > MOST_COLUMNS:
            raise self._builder.unsupported(path, f"it has more than {MOST_COLUMNS} columns")
        self._columns[message.full_name] = number

    def _field(self, field: FieldDescriptor, path: Path) -> Field:
        if field.number > LARGEST_NUMBER:
            raise self._builder.unsupported(path, f"its number is larger than {LARGEST_NUMBER}")
        return Field(
            column_name(field.name),
            field.number,
            self._shape(field, path),
            None if field.is_repeated or field.has_presence else _default(field),
            self._docs.get(field.full_name),
        )

    def _shape(self, field: FieldDescriptor, path: Path) -> Shape:
        if not field.is_repeated:
            return self._value(field, path)
        if field.message_type is None or not field.message_type.GetOptions().map_entry:
            return ListOf(self._value(field, (*path, "element")))
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return MapOf(_scalar(key), self._value(value, (*path, "value")))

    def _value(self, field: FieldDescriptor, path: Path) -> Shape:
        if field.type == _F.TYPE_GROUP:
            raise self._builder.unsupported(
                path, "it is a group, which Protobuf no longer supports"
            )
        message = field.message_type
        if message is None:
            return _scalar(field)
        name = message.full_name
        if kind := _MESSAGES.get(name):
            return Leaf(kind, _F.TYPE_MESSAGE, name)
        if contains_itself(message):
            return Leaf("json", _F.TYPE_MESSAGE, name)
        return self.struct(message, path)


def _name_of_type(field: FieldDescriptor) -> str:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        message = message.fields_by_name["value"].message_type
    return "" if message is None else str(message.full_name)


def _scalar(field: FieldDescriptor) -> Leaf:
    enum = field.enum_type
    names = tuple((value.name, value.number) for value in enum.values) if enum else ()
    return Leaf(KINDS[field.type], field.type, names=names)


def _default(field: FieldDescriptor) -> Any:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[0].name
    return field.default_value


def contains_itself(message: Descriptor) -> bool:
    """Also true of google.protobuf.Struct, Value and ListValue, which contain each other."""
    visited: set[str] = set()
    pending = [message]
    while pending:
        for field in pending.pop().fields:
            inner = field.message_type
            if inner is None or inner.full_name in visited:
                continue
            if inner.full_name == message.full_name:
                return True
            visited.add(inner.full_name)
            pending.append(inner)
    return False
