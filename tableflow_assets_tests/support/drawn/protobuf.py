"""Protobuf messages and values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from hypothesis import strategies as st

from tableflow_assets_tests.decode.protobuf.messages import message_class
from tableflow_assets_tests.support.drawn.format import BY_TOPIC, Format, Values, Write
from tableflow_assets_tests.support.drawn.protobuf_kinds import (
    BESIDES,
    IMPORTS,
    KINDS,
    WIDER,
    Message,
)
from tableflow_assets_tests.support.drawn.shapes import (
    Array,
    Field,
    Leaf,
    Map,
    Maybe,
    Record,
    Rules,
    Shape,
)


class Protobuf(Format):
    """The value of a field that is a message may be None: it is then not in the record."""

    kinds = KINDS
    rules = Rules(
        leaves=tuple(KINDS),
        wider=WIDER,
        map_keys=("string", "bool", "int32", "sint64", "uint64"),
        collections_nest=False,
    )

    def write(self, record: Record, registry: SchemaRegistryClient) -> Write:
        kind = compiled(record)
        options = BY_TOPIC | {"use.deprecated.format": False}
        serializer = ProtobufSerializer(kind, registry, options)

        def write(value: Any, *context: Any) -> Any:
            message = kind()
            fill(message, record, value)
            return serializer(message, *context)

        return write

    def field_values(self, shape: Shape) -> Values:
        return st.none() | self.values(shape) if is_message(shape) else self.values(shape)

    def expected_field(self, shape: Shape, value: Any) -> Any:
        return None if value is None else self.expected(shape, value)


def is_message(shape: Shape) -> bool:
    return isinstance(shape, Record) or (
        isinstance(shape, Leaf) and isinstance(KINDS[shape.kind], Message)
    )


@lru_cache(maxsize=10)
def compiled(record: Record) -> type[Any]:
    messages = " ".join(messages_of(record))
    return message_class(f'syntax = "proto3"; {IMPORTS} {messages} {BESIDES}', record.name)


def messages_of(record: Record) -> Iterator[str]:
    fields = " ".join(
        f"{declared(field.shape)} {field.name} = {field.number};" for field in record.fields
    )
    yield f"message {record.name} {{ {fields} }}"
    for field in record.fields:
        if isinstance(inside := innermost(field.shape), Record):
            yield from messages_of(inside)


def innermost(shape: Shape) -> Leaf | Record:
    match shape:
        case Maybe(inner) | Array(inner) | Map(_, inner):
            return innermost(inner)
        case _:
            return shape


def declared(shape: Shape) -> str:
    match shape:
        case Leaf(kind):
            return str(KINDS[kind].schema)
        case Maybe(inner):
            return f"optional {declared(inner)}"
        case Array(element):
            return f"repeated {declared(element)}"
        case Map(key, value):
            return f"map<{key}, {declared(value)}>"
        case Record(name):
            return name


def fill(message: Any, record: Record, value: dict[str, Any]) -> None:
    for field in record.fields:
        if value[field.name] is not None:
            fill_field(message, field, value[field.name])


def fill_field(message: Any, field: Field, value: Any) -> None:
    inner = innermost(field.shape)
    content = getattr(message, field.name)
    match field.shape:
        case Array() if is_message(inner):
            for each in value:
                put(content.add(), inner, each)
        case Array():
            content.extend(value)
        case Map() if is_message(inner):
            for key, each in value.items():
                put(content[key], inner, each)
        case Map():
            content.update(value)
        case _ if is_message(inner):
            content.SetInParent()
            put(content, inner, value)
        case _:
            setattr(message, field.name, value)


def put(message: Any, shape: Leaf | Record, value: Any) -> None:
    if isinstance(shape, Record):
        fill(message, shape, value)
        return
    kind = KINDS[shape.kind]
    assert isinstance(kind, Message)
    kind.put(message, value)
