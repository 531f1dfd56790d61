"""A compiled Protobuf file as .proto source, for files that import it.

It has only what an importing file can name: messages, fields, enums and extensions. Options are left
out, because the compiled file itself replaces what the compiler makes of this text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_TYPES = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()
}
_LABELS = {
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
}


def source_of(file: FileDescriptorProto) -> str:
    return "\n".join(_lines(file))


def _lines(file: FileDescriptorProto) -> Iterator[str]:
    proto2 = file.syntax in ("", "proto2")
    yield f'syntax = "{"proto2" if proto2 else "proto3"}";'
    if file.package:
        yield f"package {file.package};"
    for index, name in enumerate(file.dependency):
        yield f'import {"public " if index in file.public_dependency else ""}"{name}";'
    for enum in file.enum_type:
        yield from _enum(enum)
    for message in file.message_type:
        yield from _message(message, proto2)
    yield from _extensions(file.extension)


def _enum(enum: EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "option allow_alias = true;"
    for value in enum.value:
        yield f"{value.name} = {value.number};"
    yield "}"


def _message(message: DescriptorProto, proto2: bool) -> Iterator[str]:
    yield f"message {message.name} {{"
    for enum in message.enum_type:
        yield from _enum(enum)
    entries = {}
    for nested in message.nested_type:
        if nested.options.map_entry:
            entries[nested.name] = nested
        else:
            yield from _message(nested, proto2)
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        yield _map(field, entry) if entry else _field(field, proto2)
    for reach in message.extension_range:
        yield f"extensions {reach.start} to {reach.end - 1};"
    yield from _extensions(message.extension)
    yield "}"


def _map(field: FieldDescriptorProto, entry: DescriptorProto) -> str:
    key, value = (_type(part) for part in entry.field)
    return f"map<{key}, {value}> {field.name} = {field.number};"


def _field(field: FieldDescriptorProto, proto2: bool) -> str:
    has_label = proto2 or field.label == field.LABEL_REPEATED
    label = _LABELS[field.label] if has_label else ""
    return f"{label}{_type(field)} {field.name} = {field.number};"


def _type(field: FieldDescriptorProto) -> str:
    return str(field.type_name or _TYPES[field.type])


def _extensions(fields: Iterable[FieldDescriptorProto]) -> Iterator[str]:
    for field in fields:
        yield f"extend {field.extendee} {{ {_field(field, proto2=True)} }}"
