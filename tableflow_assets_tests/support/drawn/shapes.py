"""What all serializations have in common: how a record is built from its parts, and may change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias

from hypothesis import strategies as st


@dataclass(frozen=True)
class Leaf:
    """A type that is not taken apart here: its name in the format's table of leaves."""

    kind: str


@dataclass(frozen=True)
class Maybe:
    inner: Shape


@dataclass(frozen=True)
class Array:
    element: Shape


@dataclass(frozen=True)
class Map:
    key: str
    value: Shape


@dataclass(frozen=True)
class Field:
    """``number``: never used again for another field, as Protobuf wants it."""

    name: str
    number: int
    shape: Shape


@dataclass(frozen=True)
class Record:
    name: str
    fields: tuple[Field, ...]


Shape: TypeAlias = Leaf | Maybe | Array | Map | Record


@dataclass(frozen=True)
class Rules:
    """What a format's schemas can say, and which changes of a type its columns take."""

    leaves: tuple[str, ...]
    wider: dict[str, str]
    map_keys: tuple[str, ...] = ("string",)
    collections_nest: bool = True  # also: their elements can be null
    never_maybe: frozenset[str] = frozenset()  # leaves that have their own way to be null
    field_name: Callable[[int], str] = "f{}".format  # of the field's number


class Drawing:
    """Draws for one example. Even the simplest one has every leaf of its format, and every change
    of a version that applies: hypothesis begins with the simplest."""

    def __init__(self, draw: st.DrawFn, rules: Rules) -> None:
        self._draw = draw
        self._rules = rules
        self._numbers = count(1)

    def record(self) -> Record:
        leaves = list(self._draw(st.permutations(self._rules.leaves)))
        return Record("Drawn", tuple(self._fields(leaves, depth=0)))

    def next_version(self, record: Record) -> Record:
        """Fields dropped, added, in another order; numbers wider; the same inside of records."""
        kept = [field for field in record.fields if not self._one_in(4)] or record.fields[:1]
        changed = [replace(field, shape=self._changed(field.shape)) for field in kept]
        added = self._field(Maybe(Leaf(self._any_maybe_leaf())))
        return replace(record, fields=tuple(self._draw(st.permutations([*changed, added]))))

    def _fields(self, leaves: list[str], depth: int) -> list[Field]:
        """Every leaf somewhere in them; some of them together in a record."""
        fields = []
        while leaves:
            if depth < 2 and len(leaves) > 2 and self._one_in(4):
                inside, leaves = leaves[:3], leaves[3:]
                name = f"R{next(self._numbers)}"
                shape: Shape = Record(name, tuple(self._fields(inside, depth + 1)))
            else:
                shape, leaves = Leaf(leaves[0]), leaves[1:]
            fields.append(self._field(self._perhaps_null(self._wrapped(shape))))
        return fields

    def _field(self, shape: Shape) -> Field:
        number = next(self._numbers)
        return Field(self._rules.field_name(number), number, shape)

    def _wrapped(self, shape: Shape) -> Shape:
        wrapping = self._draw(st.sampled_from(["none", "maybe", "array", "map"]))
        if wrapping == "maybe":
            return self._maybe(shape)
        if wrapping == "none":
            return shape
        inner = self._inside_a_collection(shape)
        if wrapping == "array":
            return Array(inner)
        return Map(self._draw(st.sampled_from(self._rules.map_keys)), inner)

    def _perhaps_null(self, shape: Shape) -> Shape:
        can_be = self._rules.collections_nest and isinstance(shape, Array | Map)
        return Maybe(shape) if can_be and self._one_in(3) else shape

    def _inside_a_collection(self, shape: Shape) -> Shape:
        return self._wrapped(shape) if self._rules.collections_nest and self._one_in(2) else shape

    def _maybe(self, shape: Shape) -> Shape:
        never = isinstance(shape, Leaf) and shape.kind in self._rules.never_maybe
        return shape if never else Maybe(shape)

    def _any_maybe_leaf(self) -> str:
        possible = [leaf for leaf in self._rules.leaves if leaf not in self._rules.never_maybe]
        return self._draw(st.sampled_from(possible))

    def _changed(self, shape: Shape) -> Shape:
        match shape:
            case Leaf(kind):
                wider = self._rules.wider.get(kind, kind)
                return Leaf(kind if self._one_in(3) else wider)
            case Maybe(inner):
                return Maybe(self._changed(inner))
            case Array(element):
                return Array(self._changed(element))
            case Map(key, value):
                return Map(key, self._changed(value))
            case Record():
                return self.next_version(shape)

    def _one_in(self, chances: int) -> bool:
        return self._draw(st.integers(1, chances)) == chances


@st.composite
def versions(draw: st.DrawFn, rules: Rules) -> tuple[Record, Record]:
    """A schema, and a next version that its table must take."""
    drawing = Drawing(draw, rules)
    first = drawing.record()
    return first, drawing.next_version(first)
