"""Delta's statistics of a data file, from Iceberg's.

Readers use them to skip files, and answer some queries from them alone. So a bound that would be wrong
by Delta's rules is left out.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial

from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.table.delta.schema import physical_name

# A bound of Iceberg as JSON, or None where JSON cannot express it.
BoundText = Callable[[bytes], str | None]
_EPOCH, _EPOCH_DAY = datetime(1970, 1, 1), date(1970, 1, 1).toordinal()
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


@dataclass(frozen=True, slots=True)
class _Column:
    key: str  # its name in the files as a JSON key, with the colon
    field_id: int
    bounds: tuple[BoundText, BoundText] | None = None
    may_have_nan: bool = False
    fields: tuple[_Column, ...] = ()  # of a struct


class StatsWriter:
    """For files of a table with this schema, whichever schema they were written with."""

    def __init__(self, schema: Schema) -> None:
        self._columns = _columns(schema.as_struct())

    def of(self, file: DataFile, *, tight: bool = True) -> str:
        """``tight``: whether all rows of the file still count, none of them deleted."""
        nulls, nans = file.null_value_counts or {}, file.nan_value_counts or {}
        lower, upper = file.lower_bounds or {}, file.upper_bounds or {}

        def bound(column: _Column, side: int, bounds: dict[int, bytes]) -> str | None:
            value = bounds.get(column.field_id)
            if value is None or column.bounds is None:
                return None
            # To Delta, NaN is the largest number; Iceberg leaves it out of the bounds.
            if column.may_have_nan and nans.get(column.field_id) != 0:
                return None
            return column.bounds[side](value)

        def null_count(column: _Column) -> str | None:
            count = nulls.get(column.field_id)
            return None if count is None else str(count)

        return (
            f'{{"numRecords":{file.record_count}'
            f',"minValues":{_object(self._columns, lambda column: bound(column, 0, lower)) or "{}"}'
            f',"maxValues":{_object(self._columns, lambda column: bound(column, 1, upper)) or "{}"}'
            f',"nullCount":{_object(self._columns, null_count) or "{}"}'
            f',"tightBounds":{"true" if tight else "false"}}}'
        )


def loosened(stats: str) -> str:
    """The same for a file with deleted rows. As text, since parsing would round decimals."""
    return stats.replace('"tightBounds":true', '"tightBounds":false')


def _columns(struct_type: StructType) -> tuple[_Column, ...]:
    """The columns that Delta has statistics for: no lists, no maps, nothing inside them."""
    return tuple(
        _column(field)
        for field in struct_type.fields
        if not isinstance(field.field_type, (ListType, MapType))
    )


def _column(field: NestedField) -> _Column:
    kind = field.field_type
    return _Column(
        key=f"{json.dumps(physical_name(field.name))}:",
        field_id=field.field_id,
        bounds=_bounds(kind),
        may_have_nan=isinstance(kind, (FloatType, DoubleType)),
        fields=_columns(kind) if isinstance(kind, StructType) else (),
    )


def _object(columns: Iterable[_Column], text_of: Callable[[_Column], str | None]) -> str | None:
    parts = []
    for column in columns:
        value = _object(column.fields, text_of) if column.fields else text_of(column)
        if value is not None:
            parts.append(column.key + value)
    return f"{{{','.join(parts)}}}" if parts else None


def _bounds(kind: IcebergType) -> tuple[BoundText, BoundText] | None:
    """How to write the lower and the upper bound; None for types without bounds in Delta."""
    if isinstance(kind, DecimalType):
        as_decimal = partial(_decimal, scale=kind.scale)
        return as_decimal, as_decimal
    return _BOUNDS.get(type(kind))


def _signed_int(bound: bytes) -> int:
    """4 bytes where the file is older than the column's widening, otherwise 8."""
    return int.from_bytes(bound, "little", signed=True)


def _integer(bound: bytes) -> str:
    return str(_signed_int(bound))


def _float(bound: bytes, zero: str) -> str | None:
    value: float = (_FLOAT if len(bound) == _FLOAT.size else _DOUBLE).unpack(bound)[0]
    if not math.isfinite(value):
        return None
    return repr(value) if value else zero


def _decimal(bound: bytes, scale: int) -> str:
    unscaled = int.from_bytes(bound, "big", signed=True)
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    integral, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if unscaled < 0 else ''}{integral}{'.' if scale else ''}{fraction}"


def _text(bound: bytes) -> str | None:
    try:
        return json.dumps(bound.decode())
    except UnicodeDecodeError:
        return None


def _date(bound: bytes) -> str | None:
    try:
        return f'"{date.fromordinal(_EPOCH_DAY + _signed_int(bound)).isoformat()}"'
    except (ValueError, OverflowError):  # years that do not have four digits
        return None


def _time(bound: bytes, zone: str, *, up: bool) -> str | None:
    micros = _signed_int(bound)
    try:
        moment = _EPOCH + timedelta(milliseconds=-(-micros // 1000) if up else micros // 1000)
    except OverflowError:  # as above
        return None
    return f'"{moment.isoformat(timespec="milliseconds")}{zone}"'


_BOUNDS: dict[type[IcebergType], tuple[BoundText, BoundText]] = {
    IntegerType: (_integer, _integer),
    LongType: (_integer, _integer),
    # Some readers order the two zeros, others treat them as equal: include both in the bounds.
    FloatType: (partial(_float, zero="-0.0"), partial(_float, zero="0.0")),
    DoubleType: (partial(_float, zero="-0.0"), partial(_float, zero="0.0")),
    StringType: (_text, _text),
    DateType: (_date, _date),
    TimestampType: (partial(_time, zone="", up=False), partial(_time, zone="", up=True)),
    TimestamptzType: (partial(_time, zone="Z", up=False), partial(_time, zone="Z", up=True)),
}
