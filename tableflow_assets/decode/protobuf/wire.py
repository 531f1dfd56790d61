"""Protobuf messages as Arrow arrays, by ptars, a Rust library that makes no object per record.

It is given a schema of our own, made from the row's shape, that reads the same bytes: every field has
presence (an absent one is NULL; defaults are filled in later), a value that becomes JSON text is the
bytes of its message, and a Date is its three numbers (ptars reads an invalid one as 1970-01-01). If a
message occurs several times, its bytes are a list: joined, they are what Protobuf merges them into.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf import duration_pb2, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tableflow_assets.decode.protobuf.shape import Field, Leaf, ListOf, MapOf, Shape, Struct

MALFORMED = "malformed_protobuf"
INVALID_UTF8 = "invalid_utf8"
OUT_OF_RANGE = "number_out_of_range"

_P = FieldDescriptorProto
_LIST, _LIST_TAG = "List", b"\x0a"  # of messages: its name, and the tag before each
_GOOGLE = [module.DESCRIPTOR for module in (duration_pb2, timestamp_pb2, wrappers_pb2)]
_DATE = Struct(
    "google.type.Date",
    tuple(
        Field(name, number, Leaf("int", _P.TYPE_INT32), default=0)
        for number, name in enumerate(("year", "month", "day"), start=1)
    ),
)


class Undecodable(Exception):
    """At least one of the messages is not what its schema says."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


class WireReader:
    """Reads messages of one shape. Absent fields are NULL, unless they are lists or maps."""

    def __init__(self, shape: Struct) -> None:
        # A damaged record may make it panic, and printing the backtrace takes long.
        os.environ["RUST_BACKTRACE"] = "0"
        # Only the process that decodes needs it.
        from ptars import HandlerPool, PtarsConfig

        schema = _WireSchema()
        name = schema.message(shape)
        schema.add_list_of(name)
        pool = DescriptorPool()
        for file in _GOOGLE:
            pool.AddSerializedFile(file.serialized_pb)
        pool.Add(schema.file)
        config = PtarsConfig(
            timestamp_unit="us",
            duration_unit="us",
            enum_repr="string",
            list_value_nullable=True,
            map_value_nullable=True,
        )
        message = pool.FindMessageTypeByName(name)
        self._handler: Any = HandlerPool([message.file], config=config).get_for_message(message)
        self._list: Any = GetMessageClass(pool.FindMessageTypeByName(_LIST))

    def read(self, messages: pa.Array) -> pa.RecordBatch:
        batch = self._read(messages)
        self._refuse_malformed(messages)
        return batch

    def _refuse_malformed(self, messages: pa.Array) -> None:
        """ptars overlooks tags of more than 32 bits and groups with mismatched ends.

        So Google's parser reads all of them as well, as one message that lists them.
        """
        lengths = pc.binary_length(messages).dictionary_encode()
        distinct = lengths.dictionary.to_pylist()
        tags = pa.array([_LIST_TAG + _varint(length) for length in distinct], pa.binary())
        elements = pc.binary_join_element_wise(tags.take(lengths.indices), messages, b"")
        start, end = _extent(elements)
        try:
            self._list.FromString(elements.buffers()[2][start:end].to_pybytes())
        except DecodeError:
            raise Undecodable(MALFORMED) from None

    def _read(self, messages: pa.Array) -> pa.RecordBatch:
        try:
            return self._handler.array_to_record_batch(messages)
        except ValueError as error:
            raise Undecodable(INVALID_UTF8 if "UTF-8" in str(error) else MALFORMED) from None
        except BaseException as error:
            # A length near 2^64 makes the library panic; its class cannot be imported.
            if type(error).__name__ != "PanicException":
                raise
            raise Undecodable(MALFORMED) from None


def _extent(array: pa.Array) -> tuple[int, int]:
    """Where the bytes of all values begin and end in their buffer."""
    offsets = array.buffers()[1]
    if not len(array) or offsets is None:
        return 0, 0
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return int(places[0]), int(places[-1])


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:  # noqa: PLR2004
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


class _WireSchema:
    def __init__(self) -> None:
        self.file = FileDescriptorProto(name="wire.proto", syntax="proto2")
        self.file.dependency.extend(file.name for file in _GOOGLE)
        self._names: dict[str, str] = {}

    def message(self, shape: Struct) -> str:
        name = self._names.get(shape.message)
        if name is None:
            # Named by a number: the library treats some of Google's names specially.
            name = self._names[shape.message] = f"M{len(self._names)}"
            message = DescriptorProto(name=name)
            for field in shape.fields:
                # Every occurrence of the message's bytes is needed.
                is_json = isinstance(field.shape, Leaf) and field.shape.kind == "json"
                kind = ListOf(field.shape) if is_json else field.shape
                self._add(message, field.name, field.number, kind)
            self.file.message_type.append(message)
        return name

    def add_list_of(self, name: str) -> None:
        rows = self.file.message_type.add(name=_LIST).field.add(name="rows", number=1)
        rows.label, rows.type, rows.type_name = _P.LABEL_REPEATED, _P.TYPE_MESSAGE, f".{name}"

    def _add(self, message: DescriptorProto, name: str, number: int, shape: Shape) -> None:
        field = message.field.add(name=name, number=number, label=_P.LABEL_OPTIONAL)
        if isinstance(shape, ListOf):
            field.label = _P.LABEL_REPEATED
            self._set_type(field, shape.element)
        elif isinstance(shape, MapOf):
            field.label = _P.LABEL_REPEATED
            field.type = _P.TYPE_MESSAGE
            field.type_name = f".{message.name}.{self._entry(message, shape)}"
        else:
            self._set_type(field, shape)

    def _entry(self, message: DescriptorProto, shape: MapOf) -> str:
        entry = DescriptorProto(name=f"Entry{len(message.nested_type)}")
        entry.options.map_entry = True
        self._add(entry, "key", 1, shape.key)
        self._add(entry, "value", 2, shape.value)
        message.nested_type.append(entry)
        return str(entry.name)

    def _set_type(self, field: FieldDescriptorProto, shape: Shape) -> None:
        if isinstance(shape, Leaf) and shape.kind == "date":
            shape = _DATE
        if isinstance(shape, Struct):
            field.type, field.type_name = _P.TYPE_MESSAGE, f".{self.message(shape)}"
        elif isinstance(shape, Leaf):
            field.type = _P.TYPE_BYTES if shape.kind == "json" else shape.wire
            if field.type == _P.TYPE_MESSAGE:
                field.type_name = f".{shape.message}"
            elif shape.names:
                field.type_name = f".{self._enum(shape.names)}"

    def _enum(self, names: tuple[tuple[str, int], ...]) -> str:
        # An enum's values are names in the enclosing scope: a message of its own keeps them apart.
        holder = self.file.message_type.add(name=f"E{len(self.file.message_type)}")
        enum = holder.enum_type.add(name="E")
        numbers: set[int] = set()
        for name, number in names:
            if number not in numbers:  # if a number has several names, Protobuf uses the first
                numbers.add(number)
                enum.value.add(name=name, number=number)
        return f"{holder.name}.E"
