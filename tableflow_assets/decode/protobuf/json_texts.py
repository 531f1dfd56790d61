"""Values without a fixed set of fields as JSON text: Struct, Value, ListValue, Any, recursive messages.

The text is Protobuf's own JSON mapping, with the fields' names as the schema has them.
"""

from __future__ import annotations

import json
from typing import Any

from google.protobuf import any_pb2, json_format, message_factory
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message

_ANY = "google.protobuf.Any"
# An Any whose type is unknown is printed as this type, under its own name.
_UNKNOWN = "tableflow.internal.UnknownAny"
_SUFFIX = f"/{_UNKNOWN}"


class JsonTexts:
    """For the types of one registered schema."""

    def __init__(self, pool: DescriptorPool) -> None:
        self._pool = pool
        _add_if_missing(pool, any_pb2.DESCRIPTOR.serialized_pb, any_pb2.DESCRIPTOR.name)
        _add_if_missing(pool, _unknown_any(), "tableflow/internal/unknown_any.proto")
        self._holds_any: dict[str, bool] = {}

    def text(self, message_name: str, content: bytes) -> str | None:
        """None if ``content`` is no such message, or one that JSON cannot express."""
        try:
            message = self._parsed(message_name, content)
            self._name_unknown(message)
            value = json_format.MessageToDict(
                message, preserving_proto_field_name=True, descriptor_pool=self._pool
            )
            plain = _restored(value) if self._may_hold_any(message.DESCRIPTOR) else value
            return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (DecodeError, json_format.Error, ValueError, TypeError, RecursionError):
            return None

    def _parsed(self, name: str, content: bytes) -> Any:
        kind = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(name))
        return kind.FromString(content)

    def _may_hold_any(self, kind: Descriptor) -> bool:
        if kind.full_name not in self._holds_any:
            self._holds_any[kind.full_name] = _reaches_any(kind)
        return self._holds_any[kind.full_name]

    def _name_unknown(self, message: Message) -> None:
        if not self._may_hold_any(message.DESCRIPTOR):
            return
        if message.DESCRIPTOR.full_name == _ANY:
            self._repack(message)
            return
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if field.message_type.GetOptions().map_entry:
                inner = field.message_type.fields_by_name["value"].message_type
                values = value.values() if inner is not None else ()
            else:
                values = value if field.is_repeated else (value,)
            for element in values:
                self._name_unknown(element)

    def _repack(self, any_value: Any) -> None:
        if not any_value.type_url:
            return
        try:
            inner = self._parsed(any_value.type_url.rpartition("/")[2], any_value.value)
        except (KeyError, DecodeError):
            inner = self._parsed(_UNKNOWN, b"")
            inner.value = any_value.value
            any_value.type_url += _SUFFIX
        else:
            self._name_unknown(inner)
        any_value.value = inner.SerializeToString()


def _reaches_any(kind: Descriptor) -> bool:
    reached = {kind.full_name}
    pending = [kind]
    while pending:
        for field in pending.pop().fields:
            inner = field.message_type
            if inner is not None and inner.full_name not in reached:
                reached.add(inner.full_name)
                pending.append(inner)
    return _ANY in reached


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(element) for element in value]
    if not isinstance(value, dict):
        return value
    restored = {key: _restored(element) for key, element in value.items()}
    kind = restored.get("@type")
    if isinstance(kind, str) and kind.endswith(_SUFFIX):
        return {"@type": kind.removesuffix(_SUFFIX), "value": restored.get("value", "")}
    return restored


def _unknown_any() -> bytes:
    package, _, name = _UNKNOWN.rpartition(".")
    file = FileDescriptorProto(
        name="tableflow/internal/unknown_any.proto", package=package, syntax="proto3"
    )
    file.message_type.add(name=name).field.add(
        name="value",
        number=1,
        type=FieldDescriptorProto.TYPE_BYTES,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    return bytes(file.SerializeToString())


def _add_if_missing(pool: DescriptorPool, content: bytes, name: str) -> None:
    try:
        pool.FindFileByName(name)
    except KeyError:
        pool.AddSerializedFile(content)
