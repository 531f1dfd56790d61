"""Values as numbers, bytes and text that can be compared exactly."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
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


class Tolerant(ABC):
    """Expected where several values are right."""

    @abstractmethod
    def matches(self, stored: Any) -> bool: ...


@dataclass(frozen=True)
class JsonText(Tolerant):
    """Expected in a text column: the JSON of this value, in any spelling.

    ``or_plain``: or the string itself, if the schema does not tell the judge which.
    """

    value: Any
    or_plain: bool = False

    @property
    def exact_text(self) -> str:
        """As the writer of Avro's recursive types spells it, which only matters for a hash."""
        return json.dumps(self.value, ensure_ascii=False)

    def matches(self, stored: Any) -> bool:
        if self.or_plain and stored == self.value:
            return True
        try:
            return is_same_json(self.value, read_json(stored))
        except (TypeError, Unreadable):
            return False


@dataclass(frozen=True)
class OrNull(Tolerant):
    """Expected in a column that the table may not have had yet when the row was written."""

    value: Any

    def matches(self, stored: Any) -> bool:
        return stored is None or is_same(self.value, stored)


@dataclass(frozen=True)
class OtherMembers(Tolerant):
    """Expected in the column of an object's members that have none of their own: these.

    And any of the ``late``, which may have got a column only after the row was written. Or NULL: the table
    may not have had this column then.
    """

    members: dict[str, Any]
    late: dict[str, Any]

    def matches(self, stored: Any) -> bool:
        if stored is None:
            return True
        possible = self.late | self.members
        return self.members.keys() <= stored.keys() <= possible.keys() and all(
            is_same(possible[key], stored[key]) for key in stored
        )


@dataclass(frozen=True)
class SomeText(Tolerant):
    """Expected in a text column: any text. The judge cannot say more."""

    def matches(self, stored: Any) -> bool:
        return isinstance(stored, str)


def decimal_of(unscaled: int, scale: int) -> Decimal:
    """From its digits: arithmetic would round to the precision of Python's context."""
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((int(unscaled < 0), digits, -scale))


def with_times_as_numbers(table: pa.Table) -> pa.Table:
    """Dates and times as plain numbers, because the range of Python's own types is too small."""
    fields = [pa.field(column.name, _number_type(column.type)) for column in table.schema]
    return table.cast(pa.schema(fields))


def _number_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _number_type(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_number_type(kind.key_type), _number_type(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.large_list(_number_type(kind.value_type))
    return kind


def with_maps(value: Any, kind: IcebergType) -> Any:
    """A value from pyarrow, with its maps as dicts instead of lists of pairs."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {f.name: with_maps(value[f.name], f.field_type) for f in kind.fields}
    if isinstance(kind, ListType):
        return [with_maps(element, kind.element_type) for element in value]
    if isinstance(kind, MapType):
        return {key: with_maps(inner, kind.value_type) for key, inner in value}
    return value


def is_same(expected: Any, actual: Any) -> bool:
    """Equal, even if it contains NaN, which does not equal itself."""
    if isinstance(expected, Tolerant):
        return expected.matches(actual)
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            is_same(expected[key], actual[key]) for key in expected
        )
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(is_same, expected, actual))
    if isinstance(expected, float) and isinstance(actual, float):
        return expected == actual or (math.isnan(expected) and math.isnan(actual))
    return bool(expected == actual)
