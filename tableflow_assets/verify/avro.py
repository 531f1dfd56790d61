"""Confluent-framed Avro: the judge's own reader, and how its values appear in a table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

from pyiceberg.types import IcebergType, StructType

from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.verify.avro_columns import (
    Convert,
    converter,
    part_of,
    parts_below,
    row_converter,
)
from tableflow_assets.verify.avro_schema import Node, parsed
from tableflow_assets.verify.avro_wire import Readers, read_all, without_union
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
from tableflow_assets.verify.spark_json import json_of_column, sorted_json


class Content(NamedTuple):
    """A value, and its type in the writer's schema."""

    value: Any
    node: Node


_Place = tuple[int, Path, int]


class Avro(Reader):
    """Reads values of one subject, each with its writer's schema alone: what that lacks is None."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._ids = ids_of(subject)
        self._readers = Readers()
        self._root = cache(self._parsed)
        # By the identity of the types; the column's is kept, so that no other gets the same.
        self._converters: dict[_Place, tuple[IcebergType, Convert]] = {}
        self._row_converters: dict[_Place, tuple[StructType, Convert | None]] = {}

    def schema_id(self, data: bytes) -> int:
        return framed_id(data, self._ids)

    def read(self, data: bytes) -> Content:
        root = self._root(self.schema_id(data))
        if root is None:
            raise Unreadable("its schema is not valid Avro")
        value = read_all(data[HEADER_BYTES:], self._readers.of(root))
        return Content(value, root)

    def as_column(self, content: Content, path: Path, kind: IcebergType) -> Any:
        value, node = content
        if path and not self._is_record:
            if path != (VALUE_COLUMN,):
                return None
            path = ()
        for name in path:
            value, node = without_union(value, node)
            spelled, part = part_of(node, name)
            if value is None or part is None:
                return None
            value, node = value[spelled], part
        made = self._converters.get(key := (id(node), path, id(kind)))
        if made is None:
            made = (kind, converter(node, kind, self._peers(path)))
            self._converters[key] = made
        return made[1](value)

    def as_row(self, content: Content, around: Path, row: StructType) -> Row:
        made = self._row_converters.get(key := (id(content.node), around, id(row)))
        if made is None:
            made = (row, self._of_row(content.node, around, row))
            self._row_converters[key] = made
        convert = made[1]
        return convert(content.value) if convert else super().as_row(content, around, row)

    def _of_row(self, node: Node, around: Path, row: StructType) -> Convert | None:
        """None where a value has to show its type first."""
        names = []
        for column in (*around, ""):
            if len(node.alternatives) != 1 or node.alternatives[0].kind != "record":
                return None
            [node] = node.alternatives
            if column:
                name, part = part_of(node, column)
                if part is None:
                    return lambda _: {}
                names.append(name)
                node = part
        of_record = row_converter(node, row, self._peers(around))

        def convert(value: Any) -> Row:
            for name in names:
                value = None if value is None else value[name]
            return {} if value is None else of_record(value)

        return convert if self._is_record else None

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

    @cached_property
    def _is_record(self) -> bool:
        return [branch.kind for branch in self._roots[-1].alternatives] == ["record"]

    def _peers(self, path: Path) -> Sequence[Node]:
        peers: Sequence[Node] = self._roots
        for name in path:
            peers = parts_below(peers, name)
        return peers

    def _parsed(self, schema_id: int) -> Node | None:
        version = next(v for v in self._subject.versions if v.schema_id == schema_id)
        return _schema(version)


def _schema(version: RegisteredSchema) -> Node | None:
    try:
        return parsed(version.text, dict(version.references))
    except ValueError:
        return None
