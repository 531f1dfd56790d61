"""What a column holds of an Avro value: found out once for a type, then done for every value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

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
from tableflow_assets.verify.avro_json import json_of
from tableflow_assets.verify.avro_schema import Node
from tableflow_assets.verify.columns import JsonText, decimal_of

MEMBER = "member_"
Convert = Callable[[Any], Any]


def converter(node: Node, kind: IcebergType, peers: Sequence[Node]) -> Convert:
    """For values of ``node``, a type of the writer's schema.

    ``peers``: the types of all versions in this place; a single one may not show the column's.
    """
    nodes = [alternative for peer in peers for alternative in peer.alternatives]
    if isinstance(kind, StringType) and any(peer.kind == "record" for peer in nodes):
        return lambda value: None if value is None else JsonText(json_of(value, node))
    is_struct_of_members = isinstance(kind, StructType) and any(
        len(peer.alternatives) > 1 for peer in peers
    )
    # Made when the first such value comes: a branch that the column cannot hold may never be written.
    make = _member if is_struct_of_members else _bare
    branches = {id(branch): branch for branch in node.alternatives or [node]}
    of_branch = cache(lambda place: make(branches[place], kind, nodes))
    if len(branches) > 1:
        return lambda value: None if value is None else of_branch(id(value.node))(value.value)
    [only] = branches
    return lambda value: None if value is None else of_branch(only)(value)


def row_converter(node: Node, row: StructType, peers: Sequence[Node]) -> Convert:
    """For records, which have one type and are not null."""
    nodes = [alternative for peer in peers for alternative in peer.alternatives]
    return _record(node, row, nodes)


def part_of(node: Node, column: str) -> tuple[str, Node | None]:
    """The field that became this column: its name and its type, if the record has it."""
    if column not in node.parts:
        column = next((name for name in node.parts if column_name(name) == column), column)
    return column, node.parts.get(column)


def parts_below(peers: Sequence[Node], column: str) -> list[Node]:
    """The types that all versions have in a field's place."""
    records = [alternative for peer in peers for alternative in peer.alternatives]
    return [part for record in records if (part := part_of(record, column)[1])]


def _member(node: Node, kind: IcebergType, nodes: Sequence[Node]) -> Convert:
    """Of a union with several types: a struct in which only the written one's field is not NULL."""
    fields = kind.fields if isinstance(kind, StructType) else ()
    member = f"{MEMBER}{node.simple_name}"
    namesakes = [peer for peer in nodes if (peer.kind, peer.name) == (node.kind, node.name)]
    nothing = dict.fromkeys(f.name for f in fields)
    inner = {f.name: converter(node, f.field_type, namesakes) for f in fields if f.name == member}
    return lambda value: nothing | {name: convert(value) for name, convert in inner.items()}


def _bare(node: Node, kind: IcebergType, nodes: Sequence[Node]) -> Convert:
    if isinstance(kind, StructType) and node.kind == "record":
        return _record(node, kind, nodes)
    if isinstance(kind, ListType) and node.kind == "array":
        below = [peer.parts["items"] for peer in nodes if peer.kind == "array"]
        element = converter(node.parts["items"], kind.element_type, below)
        return lambda values: [element(inner) for inner in values]
    if isinstance(kind, MapType) and node.kind == "map":
        below = [peer.parts["values"] for peer in nodes if peer.kind == "map"]
        entry = converter(node.parts["values"], kind.value_type, below)
        return lambda values: {key: entry(inner) for key, inner in values.items()}
    return _primitive(node, kind, nodes)


def _record(node: Node, kind: StructType, nodes: Sequence[Node]) -> Convert:
    nothing = dict.fromkeys(f.name for f in kind.fields)
    fields = []
    for f in kind.fields:
        name, part = part_of(node, f.name)
        if part is not None:
            fields.append((f.name, name, converter(part, f.field_type, parts_below(nodes, f.name))))

    def row(value: Any) -> Any:
        columns = nothing.copy()
        for column, name, convert in fields:
            columns[column] = convert(value[name])
        return columns

    return row


def _primitive(node: Node, kind: IcebergType, nodes: Sequence[Node]) -> Convert:
    if isinstance(kind, TimestampType | TimestamptzType):
        # An older version may not say yet what the number means.
        meanings = [node.logical, *(peer.logical for peer in reversed(nodes))]
        unit = next((meaning for meaning in meanings if meaning), "")
        return _microseconds if unit.endswith("millis") else _as_it_is
    if isinstance(kind, DecimalType):
        scale = kind.scale
        return lambda value: (
            decimal_of(int.from_bytes(value, "big", signed=True), scale)
            if isinstance(value, bytes)
            else value
        )
    if isinstance(kind, FloatType) and node.kind != "float":
        return lambda value: struct.unpack("<f", struct.pack("<f", value))[0]
    return float if isinstance(kind, DoubleType) and node.kind in ("int", "long") else _as_it_is


def _microseconds(milliseconds: Any) -> Any:
    return milliseconds * 1000


def _as_it_is(value: Any) -> Any:
    return value
