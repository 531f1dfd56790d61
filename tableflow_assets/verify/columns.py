"""What an Avro value is in a table's column, as numbers and bytes that can be compared exactly."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.verify.avro import LOGICAL, names_of


def as_column(content: Any, shape: Any, kind: IcebergType, path: tuple[str, ...]) -> Any:
    """The field at ``path`` of a decoded record; None where there is no such field."""
    names = names_of(shape)
    for name in path:
        shape = _resolved(shape, names)
        fields = {one["name"]: one["type"] for one in shape["fields"]}
        if content is None or name not in fields:
            return None
        shape, content = fields[name], content[name]
    return _converted(content, shape, kind, names)


def _converted(value: Any, avro: Any, kind: IcebergType, names: dict[str, Any]) -> Any:
    if value is None:
        return None
    avro = _resolved(avro, names)
    if isinstance(kind, StructType):
        fields = {one["name"]: one["type"] for one in avro["fields"]}
        return {
            one.name: _converted(value[one.name], fields[one.name], one.field_type, names)
            if one.name in fields
            else None
            for one in kind.fields
        }
    if isinstance(kind, ListType):
        return [_converted(one, avro["items"], kind.element_type, names) for one in value]
    if isinstance(kind, MapType):
        inner = (avro["values"], kind.value_type, names)
        return {key: _converted(one, *inner) for key, one in value.items()}
    return _primitive(value, avro, kind)


def _primitive(value: Any, avro: Any, kind: IcebergType) -> Any:
    logical = avro.get(LOGICAL, "") if isinstance(avro, dict) else ""
    if isinstance(kind, TimestampType | TimestamptzType):
        return value * 1000 if logical.endswith("millis") else value  # microseconds
    if isinstance(kind, DecimalType) and isinstance(value, bytes):
        unscaled = int.from_bytes(value, "big", signed=True)
        digits = tuple(int(digit) for digit in str(abs(unscaled)))
        return Decimal((int(unscaled < 0), digits, -kind.scale))
    if isinstance(kind, FloatType | DoubleType):
        return float(value)
    return value


def _resolved(avro: Any, names: dict[str, Any]) -> Any:
    if isinstance(avro, list):  # null and one other
        return _resolved(next(one for one in avro if one != "null"), names)
    if isinstance(avro, str):
        return names.get(avro, avro)
    if isinstance(avro["type"], dict | list):
        return _resolved(avro["type"], names)
    return avro


def on_the_wire(table: pa.Table) -> pa.Table:
    """Dates and times as the numbers that they are: Python's have too small a range."""
    fields = [pa.field(one.name, _number_type(one.type)) for one in table.schema]
    return table.cast(pa.schema(fields))


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, _number_type(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(_number_type(kind.key_type), _number_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_number_type(kind.value_type))
    return kind


def as_found(value: Any, kind: IcebergType) -> Any:
    """A value as pyarrow returns it, with maps as maps."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {one.name: as_found(value[one.name], one.field_type) for one in kind.fields}
    if isinstance(kind, ListType):
        return [as_found(one, kind.element_type) for one in value]
    if isinstance(kind, MapType):
        return {key: as_found(one, kind.value_type) for key, one in value}
    return value


def is_same(one: Any, other: Any) -> bool:
    """Equal, also where NaN is in it, which equals nothing."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return bool(one == other)
