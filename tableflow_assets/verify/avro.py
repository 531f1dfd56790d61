"""Confluent-framed Avro: the judge's own reader, and how its values appear in a table's columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.decode.column_names import column_name
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.verify.avro_json import json_of
from tableflow_assets.verify.avro_schema import Node, parsed
from tableflow_assets.verify.avro_wire import Readers, read_all, without_union
from tableflow_assets.verify.columns import JsonText, decimal_of
from tableflow_assets.verify.readers import HEADER_BYTES, VALUE_COLUMN, Path, Unreadable, framed_id
from tableflow_assets.verify.spark_json import json_of_column, sorted_json

MEMBER = "member_"


class Content(NamedTuple):
    """A value, and its type in the writer's schema."""

    value: Any
    node: Node


class Avro:
    """Reads values of one subject, each with its writer's schema alone: what that lacks is None."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._readers = Readers()
        self._root = cache(self._parsed)

    def schema_id(self, data: bytes) -> int:
        return framed_id(data, self._subject)

    def read(self, data: bytes) -> Content:
        root = self._root(self.schema_id(data))
        if root is None:
            raise Unreadable("its schema is not valid Avro")
        value = read_all(data[HEADER_BYTES:], self._readers.of(root))
        return Content(value, root)

    def as_column(self, content: Content, path: Path, kind: IcebergType) -> Any:
        roots = self._roots
        if path and not _is_record(roots[-1]):
            return _typed(*content, kind, roots) if path == (VALUE_COLUMN,) else None
        value, node, peers = content.value, content.node, roots
        for name in path:
            value, part, peers = _field(value, node, name, peers)
            if part is None:
                return None
            node = part
        return _typed(value, node, kind, peers)

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        if kind is None:  # a table without decoded keys compares their bytes
            return data
        content = json_of_column(self.as_column(self.read(data), (), kind), kind)
        return sorted_json({} if content is None else {"key": content})

    @cached_property
    def _roots(self) -> list[Node]:
        """The types of all versions, oldest first."""
        roots = (self._root(version.schema_id) for version in self._subject.versions)
        return [root for root in roots if root is not None]

    def _parsed(self, schema_id: int) -> Node | None:
        version = next(v for v in self._subject.versions if v.schema_id == schema_id)
        return _schema(version)


def _schema(version: RegisteredSchema) -> Node | None:
    try:
        return parsed(version.text, dict(version.references))
    except ValueError:
        return None


def _is_record(root: Node) -> bool:
    return [branch.kind for branch in root.alternatives] == ["record"]


def _field(
    value: Any, node: Node, name: str, peers: Sequence[Node]
) -> tuple[Any, Node | None, list[Node]]:
    """A record's field: its value, its type, and the types that all versions have in its place."""
    value, node = without_union(value, node)
    records = [alternative for peer in peers for alternative in peer.alternatives]
    below = [part for record in records if (part := _part(record, name))]
    part = None if value is None else _part(node, name)
    if part is None:
        return None, None, below
    return value[_spelled(node, name)], part, below


def _part(node: Node, column: str) -> Node | None:
    return node.parts.get(_spelled(node, column))


def _spelled(node: Node, column: str) -> str:
    if column in node.parts:
        return column
    return next((name for name in node.parts if column_name(name) == column), column)


def _typed(value: Any, node: Node, kind: IcebergType, peers: Sequence[Node]) -> Any:
    """``peers``: the types of all versions in this place; a single one may not show the column's."""
    value, node = without_union(value, node)
    if value is None:
        return None
    nodes = [alternative for peer in peers for alternative in peer.alternatives]
    if isinstance(kind, StringType) and any(peer.kind == "record" for peer in nodes):
        return JsonText(json_of(value, node))
    has_members = any(len(peer.alternatives) > 1 for peer in peers)
    if isinstance(kind, StructType) and has_members:
        member = f"{MEMBER}{node.simple_name}"
        namesakes = [peer for peer in nodes if (peer.kind, peer.name) == (node.kind, node.name)]
        return {
            f.name: _typed(value, node, f.field_type, namesakes) if f.name == member else None
            for f in kind.fields
        }
    return _typed_member(value, node, kind, nodes)


def _typed_member(value: Any, node: Node, kind: IcebergType, peers: Sequence[Node]) -> Any:
    if isinstance(kind, StructType):
        row = {}
        for f in kind.fields:
            inner, part, below = _field(value, node, f.name, peers)
            row[f.name] = None if part is None else _typed(inner, part, f.field_type, below)
        return row
    if isinstance(kind, ListType):
        below = [peer.parts["items"] for peer in peers if peer.kind == "array"]
        element = (node.parts["items"], kind.element_type, below)
        return [_typed(inner, *element) for inner in value]
    if isinstance(kind, MapType):
        below = [peer.parts["values"] for peer in peers if peer.kind == "map"]
        entry = (node.parts["values"], kind.value_type, below)
        return {key: _typed(inner, *entry) for key, inner in value.items()}
    return _primitive(value, node, kind, peers)


def _primitive(value: Any, node: Node, kind: IcebergType, peers: Sequence[Node]) -> Any:
    if isinstance(kind, TimestampType | TimestamptzType):
        # An older version may not say yet what the number means.
        meanings = [node.logical, *(peer.logical for peer in reversed(peers))]
        unit = next((meaning for meaning in meanings if meaning), "")
        return value * 1000 if unit.endswith("millis") else value  # microseconds
    if isinstance(kind, DecimalType) and isinstance(value, bytes):
        return decimal_of(int.from_bytes(value, "big", signed=True), kind.scale)
    if isinstance(kind, FloatType):
        return struct.unpack("<f", struct.pack("<f", value))[0]
    return float(value) if isinstance(kind, DoubleType) else value
