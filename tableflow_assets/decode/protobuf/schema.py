"""The versions of a Protobuf subject as one table's columns: see `protobuf/shape` for the types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    SourceCodeInfo,
)
from pyiceberg.types import (
    BooleanType,
    IcebergType,
    NestedField,
)

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.protobuf.merge import merged
from tableflow_assets.decode.protobuf.message import ShapeReader
from tableflow_assets.decode.protobuf.shape import Leaf, ListOf, MapOf, Shape, Struct
from tableflow_assets.decode.protobuf.source import descriptors
from tableflow_assets.decode.protobuf.version import Indexes, Version, pool_of
from tableflow_assets.decode.type_mapping import PROTOBUF


class ProtobufSchemas:
    """The versions of a subject, oldest first: (schema id, text, import path → text).

    ``message`` is the full or the simple name of the message that the records hold; without it, the
    first message of the newest version.
    """

    def __init__(
        self,
        subject: str,
        versions: Sequence[tuple[int, str, Mapping[str, str]]],
        message: str | None = None,
    ) -> None:
        self.subject = subject
        builder = ColumnBuilder(subject)
        sets = [
            (schema_id, descriptors(text, references)) for schema_id, text, references in versions
        ]
        self.message = message or message_at(sets[-1][1], [0])
        self.versions = [_version(builder, *compiled, self.message) for compiled in sets]
        shapes = [version.shape for version in self.versions if version.shape]
        if not self.versions[-1].shape:
            raise UnsupportedSchema(
                f"The newest version of {subject} has no message {self.message!r}.",
                f"Name one of its messages: {', '.join(_names(sets[-1][1]))}.",
            )
        self.shape = reduce(lambda newer, older: _structs(newer, older, builder), reversed(shapes))

    def columns(self, builder: ColumnBuilder) -> list[NestedField]:
        """The newest version's columns in its order, then those that only older versions have."""
        return list(builder.struct(_fields(self.shape, builder, ()), ()).fields)


def _structs(newer: Struct, older: Struct, builder: ColumnBuilder) -> Struct:
    struct = merged(newer, older, builder)
    assert isinstance(struct, Struct)  # noqa: S101 - of two structs
    return struct


def _fields(struct: Struct, builder: ColumnBuilder, path: Path) -> list[NestedField]:
    return [
        builder.field(f.name, _iceberg(f.shape, builder, (*path, f.name)), f.doc)
        for f in struct.fields
    ]


def _iceberg(shape: Shape, builder: ColumnBuilder, path: Path) -> IcebergType:
    if isinstance(shape, Leaf):
        return PROTOBUF[shape.kind]
    if isinstance(shape, ListOf):
        return builder.list_of(_iceberg(shape.element, builder, (*path, "element")))
    if isinstance(shape, MapOf):
        value = _iceberg(shape.value, builder, (*path, "value"))
        return builder.map_of(value, PROTOBUF[shape.key.kind])
    if not shape.fields:
        return BooleanType()
    return builder.struct(_fields(shape, builder, path), path)


def message_at(descriptor_set: bytes, indexes: Sequence[int]) -> str:
    """The full name of the message that Confluent's message indexes point to."""
    for name, place in _places(_main_file(descriptor_set)):
        if place == tuple(indexes):
            return name
    raise UnsupportedSchema(
        f"The Protobuf schema has no message at the indexes {list(indexes)}.",
        "Register a schema with a message, the one that the topic's records hold.",
    )


def _version(builder: ColumnBuilder, schema_id: int, compiled: bytes, message_name: str) -> Version:
    places = dict(_places(_main_file(compiled)))
    simple = _simple(message_name)
    # The same message in another package: records do not show such a rename.
    alike = sorted((len(at), name) for name, at in places.items() if _simple(name) == simple)
    name = message_name if message_name in places else next((name for _, name in alike), None)
    files = FileDescriptorSet.FromString(compiled)
    docs = {name: doc for file in files.file for name, doc in _docs(file)}
    for file in files.file:
        file.ClearField("source_code_info")  # workers need no comments
    without_docs = files.SerializeToString()
    if name is None:
        return Version(schema_id, without_docs, None, None)
    message = pool_of(without_docs).FindMessageTypeByName(name)
    return Version(
        schema_id, without_docs, places[name], ShapeReader(builder, docs).struct(message)
    )


def _simple(name: str) -> str:
    return name.rpartition(".")[2]


def _main_file(descriptor_set: bytes) -> FileDescriptorProto:
    return FileDescriptorSet.FromString(descriptor_set).file[-1]


def _names(descriptor_set: bytes) -> list[str]:
    return [name for name, _ in _places(_main_file(descriptor_set))]


def _places(file: FileDescriptorProto) -> Iterator[tuple[str, Indexes]]:
    prefix = f"{file.package}." if file.package else ""
    pending: list[tuple[str, DescriptorProto, Indexes]] = [
        (prefix, m, (i,)) for i, m in enumerate(file.message_type)
    ]
    while pending:
        scope, message, place = pending.pop(0)
        if not message.options.map_entry:
            yield scope + message.name, place
        inner = f"{scope}{message.name}."
        pending.extend((inner, m, (*place, i)) for i, m in enumerate(message.nested_type))


_MESSAGES, _NESTED, _FIELD = 4, 3, 2  # field numbers in descriptor.proto, of which paths consist


def _docs(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """The comments of every field, by its full name."""
    comments = {tuple(at.path): _comment(at) for at in file.source_code_info.location}
    if not comments:
        return
    for name, place in _places(file):
        path = (_MESSAGES, place[0], *(part for i in place[1:] for part in (_NESTED, i)))
        message: DescriptorProto = file.message_type[place[0]]
        for index in place[1:]:
            message = message.nested_type[index]
        for index, field in enumerate(message.field):
            if comment := comments.get((*path, _FIELD, index)):
                yield f"{name}.{field.name}", comment


def _comment(location: SourceCodeInfo.Location) -> str:
    return " ".join(f"{location.leading_comments} {location.trailing_comments}".split())
