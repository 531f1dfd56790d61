"""The shape of JSON values, and how two shapes are merged.

A shape has what a reader needs: the keys in the JSON, the columns they become, and what each value is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from pyiceberg.types import (
    IcebergType,
)

from tableflow_assets.decode.column_names import column_name
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.type_mapping import JSON


class Leaf(Enum):
    """A value that is one column; the text says what the JSON looks like."""

    BOOLEAN = "true or false"
    INT = "a whole number of 32 bits"
    LONG = "a whole number"
    FLOAT = "a number of 32 bits"
    DOUBLE = "a number"
    STRING = "a string"
    DATE = "a string: 2024-02-29"
    TIMESTAMP = "a string: 2024-02-29T12:00:00.5+01:00"
    BYTES = "a string: base64"
    EPOCH_DAYS = "a whole number: days since 1970"
    EPOCH_MILLIS = "a whole number: milliseconds since 1970"
    JSON = "anything: the column holds it as JSON text"
    NULL = "always null: a column of JSON text, for the case that it is not"


@dataclass(frozen=True)
class ListOf:
    element: Shape


@dataclass(frozen=True)
class MapOf:
    """An object whose keys are data."""

    value: Shape


@dataclass(frozen=True)
class Struct:
    properties: tuple[Property, ...]


@dataclass(frozen=True)
class Property:
    key: str
    shape: Shape
    doc: str | None = None

    @property
    def column(self) -> str:
        return column_name(self.key)


Shape: TypeAlias = Leaf | ListOf | MapOf | Struct

# The next more general shape; for any other it is JSON, which fits anything.
_MORE_GENERAL: dict[Shape, Leaf] = {
    Leaf.INT: Leaf.LONG,
    Leaf.EPOCH_DAYS: Leaf.LONG,
    Leaf.EPOCH_MILLIS: Leaf.LONG,
    Leaf.LONG: Leaf.DOUBLE,
    Leaf.FLOAT: Leaf.DOUBLE,
    Leaf.DATE: Leaf.STRING,
    Leaf.TIMESTAMP: Leaf.STRING,
    Leaf.BYTES: Leaf.STRING,
}


def type_of(shape: Shape, builder: ColumnBuilder, path: Path = ()) -> IcebergType:
    if isinstance(shape, Struct):
        fields = [
            builder.field(p.column, type_of(p.shape, builder, (*path, p.column)), p.doc)
            for p in shape.properties
        ]
        return builder.struct(fields, path)
    if isinstance(shape, ListOf):
        return builder.list_of(type_of(shape.element, builder, (*path, "element")))
    if isinstance(shape, MapOf):
        return builder.map_of(type_of(shape.value, builder, (*path, "value")))
    return JSON[shape.name]


def to_depth(shape: Shape, levels: int) -> Shape:
    """The shape with everything below so many levels as JSON text."""
    if isinstance(shape, Leaf):
        return shape
    if levels == 0:
        return Leaf.JSON
    if isinstance(shape, ListOf):
        return ListOf(to_depth(shape.element, levels - 1))
    if isinstance(shape, MapOf):
        return MapOf(to_depth(shape.value, levels - 1))
    return Struct(tuple(replace(p, shape=to_depth(p.shape, levels - 1)) for p in shape.properties))


def newest_of(newest: Shape, older: Shape) -> Shape:
    """Two versions of a schema: the newest decides, but nothing that only the older has is lost."""
    return _merged(newest, older, lambda new, old: old if new is Leaf.NULL else new)


def either(first: Shape, second: Shape) -> Shape:
    """A value of one shape or the other: the least general shape that fits both."""
    return _merged(first, second, _least_general)


def both(first: Shape, second: Shape) -> Shape:
    """A value of both shapes: the more precise of them; JSON if they contradict each other."""
    return _merged(first, second, _more_precise)


def _least_general(first: Shape, second: Shape) -> Shape:
    if Leaf.NULL in (first, second):
        return second if first is Leaf.NULL else first
    wider = list(_widening(second))
    return next(shape for shape in _widening(first) if shape in wider)


def _more_precise(first: Shape, second: Shape) -> Shape:
    if Leaf.NULL in (first, second):
        return Leaf.NULL
    if second in list(_widening(first)):
        return first
    return second if first in list(_widening(second)) else Leaf.JSON


def _widening(shape: Shape) -> Iterator[Shape]:
    while shape is not Leaf.JSON:
        yield shape
        shape = _MORE_GENERAL.get(shape, Leaf.JSON)
    yield Leaf.JSON


def _merged(first: Shape, second: Shape, decide: Callable[[Shape, Shape], Shape]) -> Shape:
    if isinstance(first, Struct) and isinstance(second, Struct):
        return _merged_struct(first, second, decide)
    if isinstance(first, ListOf) and isinstance(second, ListOf):
        return ListOf(_merged(first.element, second.element, decide))
    if isinstance(first, MapOf) and isinstance(second, MapOf):
        return MapOf(_merged(first.value, second.value, decide))
    return decide(first, second)


def _merged_struct(
    first: Struct, second: Struct, decide: Callable[[Shape, Shape], Shape]
) -> Struct:
    properties = {p.key: p for p in first.properties}
    for p in second.properties:
        if match := properties.get(p.key):
            shape = _merged(match.shape, p.shape, decide)
            properties[p.key] = Property(p.key, shape, match.doc or p.doc)
        else:
            properties[p.key] = p
    return Struct(tuple(properties.values()))
