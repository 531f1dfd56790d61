"""How much a Protobuf message grows when it becomes a row: a small one can exhaust all memory.

An element of a list takes as little as two bytes in the message, but in a row the space of all its
columns. If elements have hundreds of columns, a megabyte becomes gigabytes. Messages too short for
that, which is nearly all of them, are not inspected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from tableflow_assets.decode.protobuf.shape import Leaf, ListOf, MapOf, Shape, Struct

MOST_VALUES = 20_000_000  # per record: about half a gigabyte while it is decoded
_SMALLEST_ELEMENT = 2  # bytes
_VALUE_BYTES = 8  # the size of most values
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_PAYLOAD = {_FIXED64: 8, _FIXED32: 4}
_LONGEST_VARINT = 10

# By field number: the values that each occurrence adds, and the same for the fields inside it.
_Plan = dict[int, tuple[int, "_Plan"]]
_NOTHING: tuple[int, _Plan] = (0, {})


def longest_harmless(shape: Struct) -> int:
    """Messages of up to this many bytes can never become too many values."""
    return MOST_VALUES * _SMALLEST_ELEMENT // max(_widths(shape), default=1)


def has_too_many_values(message: bytes, shape: Struct) -> bool:
    """A malformed message counts up to its fault: the decoder gets no further either."""
    sums = accumulate(_values(message, _plan(shape)))
    return any(values > MOST_VALUES for values in sums)


def _values(content: bytes, plan: _Plan) -> Iterator[int]:
    for number, start, end in _parts(content):
        width, inner = plan.get(number, _NOTHING)
        yield width
        if inner:
            yield from _values(content[start:end], inner)


def _parts(content: bytes) -> Iterator[tuple[int, int, int]]:
    """The length-delimited fields: number, begin and end."""
    at, end = 0, len(content)
    while at < end:
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == _LENGTH:
            length, at = _varint(content, at)
            if at + length > end:
                return
            yield number, at, at + length
            at += length
        elif kind == _VARINT:
            _, at = _varint(content, at)
        else:  # the markers of a group have no content
            at += _PAYLOAD.get(kind, 0)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(content[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004
            return value, at + place + 1
    return 0, len(content)  # malformed: nothing that follows counts


@lru_cache
def _plan(shape: Struct) -> _Plan:
    plan: _Plan = {}
    for field in shape.fields:
        if isinstance(field.shape, Struct):
            plan[field.number] = (0, _plan(field.shape))
        elif isinstance(field.shape, ListOf):
            plan[field.number] = (_width(field.shape.element), _inside(field.shape.element))
        elif isinstance(field.shape, MapOf):
            width = _width(field.shape.key) + _width(field.shape.value)
            plan[field.number] = (width, {2: (0, _inside(field.shape.value))})
    return plan


def _inside(shape: Shape) -> _Plan:
    return _plan(shape) if isinstance(shape, Struct) else {}


def _widths(shape: Shape) -> Iterator[int]:
    """The widths of the elements of every list and map, on all levels."""
    if isinstance(shape, Struct):
        for field in shape.fields:
            yield from _widths(field.shape)
    elif isinstance(shape, ListOf):
        yield _width(shape.element)
        yield from _widths(shape.element)
    elif isinstance(shape, MapOf):
        yield _width(shape.key) + _width(shape.value)
        yield from _widths(shape.value)


@lru_cache
def _width(shape: Shape) -> int:
    if isinstance(shape, Struct):
        return sum(_width(field.shape) for field in shape.fields) or 1
    if isinstance(shape, Leaf) and shape.names:  # a row has an enum's values by name
        return 1 + max(len(name) for name, _ in shape.names) // _VALUE_BYTES
    return 1
