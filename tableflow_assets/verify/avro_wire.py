"""Avro's binary encoding, read to the letter.

Not by fastavro: that crashes the process on values nested a few thousand levels deep, counts to 2^60 if
an array's length says so, and does not say as which of a union's types a number was written. What the
specification leaves open is as in Avro's Java library: a boolean is true if its byte is 1, and a number
with too many bits is cut to the lowest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tableflow_assets.verify.avro_schema import Node
from tableflow_assets.verify.readers import Unreadable

_INT_BYTES, _INT_BITS = 5, 0xFFFF_FFFF
_LONG_BYTES, _LONG_BITS = 10, 0xFFFF_FFFF_FFFF_FFFF
_MORE = 0x80  # set in every byte of a number but the last


class Member(NamedTuple):
    """A value of a union with several types."""

    node: Node
    value: Any


def without_union(value: Any, node: Node) -> tuple[Any, Node]:
    """The value, and the type that it really has."""
    if isinstance(value, Member):
        return value.value, value.node
    return value, (node.alternatives or [node])[0]


def read_all(body: bytes, read: Read) -> Any:
    """The value of the whole ``body``."""
    wire = Wire(body)
    try:
        value = read(wire)
    except RecursionError:
        raise Unreadable("nested too deep") from None
    if wire.at != len(body):
        raise Unreadable("too long")
    return value


class Wire:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.body):
            raise Unreadable("cut off")
        return self.body[start : self.at]

    def integer(self) -> int:
        number = self._varint(_INT_BYTES) & _INT_BITS
        return number >> 1 ^ -(number & 1)

    def long(self) -> int:
        at = self.at
        if at < len(self.body) and (number := self.body[at]) < _MORE:  # as most are
            self.at = at + 1
        else:
            number = self._varint(_LONG_BYTES) & _LONG_BITS
        return number >> 1 ^ -(number & 1)

    def sized(self) -> bytes:
        return self.take(self.long())

    def text(self) -> str:
        try:
            return self.sized().decode()
        except UnicodeDecodeError:
            raise Unreadable("text that is not UTF-8") from None

    def counts(self) -> Iterator[int]:
        """The number of elements in each block of an array or map."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # the size of the block
            if count > len(self.body):
                raise Unreadable("more elements than bytes")
            yield count

    def _varint(self, most_bytes: int) -> int:
        at, number = self.at, 0
        for place, byte in enumerate(self.body[at : at + most_bytes]):
            number |= (byte & 0x7F) << (7 * place)
            if byte < _MORE:
                self.at = at + place + 1
                return number
        raise Unreadable("a number without an end")


Read = Callable[[Wire], Any]

_SIMPLE: dict[str, Read] = {
    "null": lambda wire: None,
    "boolean": lambda wire: wire.take(1) == b"\x01",
    "int": Wire.integer,
    "long": Wire.long,
    "float": lambda wire: struct.unpack("<f", wire.take(4))[0],
    "double": lambda wire: struct.unpack("<d", wire.take(8))[0],
    "bytes": Wire.sized,
    "string": Wire.text,
}


class Readers:
    """Functions that read what a schema describes; each type's is built once."""

    def __init__(self) -> None:
        self._readers: dict[int, Read] = {}

    def of(self, node: Node) -> Read:
        if node.kind in _SIMPLE:
            return _SIMPLE[node.kind]
        if id(node) not in self._readers:
            # A type may contain itself, so its reader must exist before those of its parts.
            parts: list[tuple[str, Read]] = []
            self._readers[id(node)] = _make(node, parts)
            inner = enumerate(node.branches) if node.kind == "union" else node.parts.items()
            parts += [(str(name), self.of(part)) for name, part in inner]
        return self._readers[id(node)]


def _make(node: Node, parts: list[tuple[str, Read]]) -> Read:
    if node.kind == "union":
        return _union(node, parts)
    if node.kind == "enum":
        return _enum(node)
    if node.kind == "fixed":
        return lambda wire: wire.take(node.size)

    def record(wire: Wire) -> Any:
        values = {}
        for name, read in parts:
            values[name] = read(wire)
        return values

    def array(wire: Wire) -> Any:
        [(_, read)], elements = parts, []
        for count in wire.counts():
            for _ in range(count):
                elements.append(read(wire))
        return elements

    def mapping(wire: Wire) -> Any:
        [(_, read)], entries = parts, {}
        for count in wire.counts():
            for _ in range(count):
                key = wire.text()
                entries[key] = read(wire)
        return entries

    return {"record": record, "array": array, "map": mapping}[node.kind]


def _union(node: Node, parts: list[tuple[str, Read]]) -> Read:
    has_several = len(node.alternatives) > 1

    def union(wire: Wire) -> Any:
        index = wire.integer()
        if not 0 <= index < len(parts):
            raise Unreadable("no such type in the union")
        value, branch = parts[index][1](wire), node.branches[index]
        return Member(branch, value) if has_several and branch.kind != "null" else value

    return union


def _enum(node: Node) -> Read:
    def enum(wire: Wire) -> Any:
        index = wire.integer()
        if not 0 <= index < len(node.symbols):
            raise Unreadable("no such symbol")
        return node.symbols[index]

    return enum
