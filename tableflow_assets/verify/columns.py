"""Values as numbers, bytes and text that can be compared exactly."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyiceberg.types import (
    IcebergType,
    ListType,
    MapType,
    StructType,
)

from tableflow_assets.verify.json_text import is_same_json, read_json
from tableflow_assets.verify.readers import Unreadable


@dataclass(frozen=True)
class JsonText:
    """Expected of a column of text: the JSON of this value, in whatever spelling.

    ``or_plain``: or, of a string, the string itself. The schema does not tell the judge which.
    """

    value: Any
    or_plain: bool = False

    @property
    def exact_text(self) -> str:
        """As the writer of Avro's recursive types spells it, which matters for a hash alone."""
        return json.dumps(self.value, ensure_ascii=False)

    def is_told_by(self, text: Any) -> bool:
        if self.or_plain and text == self.value:
            return True
        try:
            return is_same_json(self.value, read_json(text))
        except (TypeError, Unreadable):
            return False


@dataclass(frozen=True)
class SomeText:
    """Expected of a column of text: that there is one. More the judge cannot say."""


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """From its digits: arithmetic would round to the precision of Python's context."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


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


def is_same(expected: Any, found: Any) -> bool:
    """Equal, also where NaN is in it, which equals nothing."""
    if isinstance(expected, JsonText):
        return expected.is_told_by(found)
    if isinstance(expected, SomeText):
        return isinstance(found, str)
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(
            is_same(expected[key], found[key]) for key in expected
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(is_same, expected, found))
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or (math.isnan(expected) and math.isnan(found))
    return bool(expected == found)
