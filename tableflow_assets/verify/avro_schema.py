"""An Avro schema as the judge sees it: a graph in which every name is resolved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_TIMES = ("time-micros", "timestamp-millis", "timestamp-micros")
_LOCAL_TIMES = ("local-timestamp-millis", "local-timestamp-micros")
# Avro ignores a logical type on any other type than its own.
_MEANINGS = {
    "int": ("date", "time-millis"),
    "long": (*_TIMES, *_LOCAL_TIMES),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}
_MOST_DIGITS = 38


@dataclass(eq=False)
class Node:
    kind: str
    name: str = ""  # with its namespace, if it has one
    logical: str = ""
    size: int = 0  # of a fixed
    precision: int = 0
    scale: int = 0
    symbols: tuple[str, ...] = ()
    parts: dict[str, Node] = field(default_factory=dict)  # fields; or `items`, `values`
    branches: list[Node] = field(default_factory=list)  # of a union

    @cached_property
    def alternatives(self) -> list[Node]:
        """The types that a non-null value can have."""
        branches = self.branches if self.kind == "union" else [self]
        return [branch for branch in branches if branch.kind != "null"]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2] or self.kind


def parsed(text: str, references: Mapping[str, str]) -> Node:
    """Raises a ValueError if it is not a schema."""
    try:
        return _Parser(references).node(json.loads(text), "")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not an Avro schema: {error!r}") from error


class _Parser:
    def __init__(self, references: Mapping[str, str]) -> None:
        self._named: dict[str, Node] = {}
        self._unread = list(references.values())

    def node(self, avro: Any, namespace: str) -> Node:
        if isinstance(avro, list):
            return Node("union", branches=[self.node(branch, namespace) for branch in avro])
        if isinstance(avro, str):
            return Node(avro) if avro in PRIMITIVES else self._by_name(avro, namespace)
        kind = avro["type"]
        if not isinstance(kind, str):
            return self.node(kind, namespace)
        if kind in ("array", "map"):
            part = "items" if kind == "array" else "values"
            return Node(kind, parts={part: self.node(avro[part], namespace)})
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(avro, namespace)
        return _primitive(avro) if kind in PRIMITIVES else self._by_name(kind, namespace)

    def _by_name(self, name: str, namespace: str) -> Node:
        while True:
            for full in (_full(name, namespace), name):
                if full in self._named:
                    return self._named[full]
            if not self._unread:
                raise ValueError(f"there is no type {name!r}")
            self.node(json.loads(self._unread.pop()), "")

    def _definition(self, avro: dict[str, Any], namespace: str) -> Node:
        name = _full(avro["name"], avro.get("namespace", namespace))
        node = _primitive(avro)
        node.kind, node.name = avro["type"].replace("error", "record"), name
        self._named[name] = node  # first: its fields may refer to it
        node.symbols = tuple(avro.get("symbols", ()))
        node.size = int(avro.get("size", 0))
        if node.kind == "fixed" and 10**node.precision > 2 ** (8 * min(node.size, 38) - 1):
            node.logical = ""  # its bytes cannot hold so many digits
        for part in avro.get("fields", ()):
            node.parts[part["name"]] = self.node(part["type"], name.rpartition(".")[0])
        return node


def _full(name: str, namespace: str | None) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _primitive(avro: dict[str, Any]) -> Node:
    node, logical = Node(avro["type"]), avro.get("logicalType")
    if logical == "decimal":
        precision, scale = avro.get("precision"), avro.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            return node
        if not 0 <= scale <= precision <= _MOST_DIGITS or not precision:
            return node
        node.precision, node.scale = precision, scale
    if logical in _MEANINGS.get(node.kind, ()):
        node.logical = logical
    return node
