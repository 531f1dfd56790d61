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

from tableflow_assets.decode.column_names import ADDITIONAL_COLUMN, column_name
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.type_mapping import JSON

ADDITIONAL_DOC = "The object's other members, which no property of its schema names"


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
    """``additional``: what members are that no property names; they become a map in a column of their own.

    True if they may be anything and are not kept, False if there are none: as JSON Schema says it.
    """

    properties: tuple[Property, ...]
    additional: Shape | bool = True


@dataclass(frozen=True)
class Property:
    key: str
    shape: Shape
    doc: str | None = None

    @property
    def column(self) -> str:
        return column_name(self.key)


Shape: TypeAlias = Leaf | ListOf | MapOf | Struct
Decide: TypeAlias = Callable[[Shape, Shape], Shape]  # of two that have nothing inside to merge

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
        if not isinstance(shape.additional, bool):
            value = type_of(shape.additional, builder, (*path, ADDITIONAL_COLUMN, "value"))
            fields.append(builder.field(ADDITIONAL_COLUMN, builder.map_of(value), ADDITIONAL_DOC))
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
    properties = (replace(p, shape=to_depth(p.shape, levels - 1)) for p in shape.properties)
    additional = shape.additional
    if not isinstance(
        additional, bool
    ):  # the map is a level of its own, for which there is always room
        additional = to_depth(additional, max(levels - 2, 0))
    return Struct(tuple(properties), additional)


def newest_of(newest: Shape, older: Shape) -> Shape:
    """Two versions of a schema: the newest decides, but nothing that only the older has is lost."""
    return _merged(newest, older, _newest)


def either(first: Shape, second: Shape) -> Shape:
    """A value of one shape or the other: the least general shape that fits both."""
    return _merged(first, second, _least_general)


def both(first: Shape, second: Shape) -> Shape:
    """A value of both shapes: the more precise of them; JSON if they contradict each other."""
    return _merged(first, second, _more_precise)


def _newest(newest: Shape, older: Shape) -> Shape:
    return older if newest is Leaf.NULL else newest


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


def _merged(first: Shape, second: Shape, decide: Decide) -> Shape:
    if isinstance(first, Struct) and isinstance(second, Struct):
        return _merged_struct(first, second, decide)
    if isinstance(first, ListOf) and isinstance(second, ListOf):
        return ListOf(_merged(first.element, second.element, decide))
    if isinstance(first, MapOf) and isinstance(second, MapOf):
        return MapOf(_merged(first.value, second.value, decide))
    return decide(first, second)


def _merged_struct(first: Struct, second: Struct, decide: Decide) -> Struct:
    properties = {p.key: p for p in first.properties}
    for p in second.properties:
        if match := properties.get(p.key):
            shape = _merged(match.shape, p.shape, decide)
            properties[p.key] = Property(p.key, shape, match.doc or p.doc)
        else:
            properties[p.key] = p
    additional = _merged_additional(first.additional, second.additional, decide)
    return Struct(tuple(properties.values()), additional)


def _merged_additional(first: Shape | bool, second: Shape | bool, decide: Decide) -> Shape | bool:
    if isinstance(first, bool):
        first, second = second, first
    if isinstance(first, bool):
        return first and second if decide is _more_precise else first or second
    if not isinstance(second, bool):
        return _merged(first, second, decide)
    if decide is _more_precise:
        return second and first
    # Where objects of one kind may have any, so may those of both.
    return Leaf.JSON if second else first
