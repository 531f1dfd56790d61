"""Fixes for two bugs of pyiceberg 0.12 in reading collections of structs.

A list or map that is NULL is read as empty, and the structs of nested collections may lose fields whose
names Parquet spells differently. Code that compares values with a table must not see that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
from pyiceberg.io.pyarrow import ArrowProjectionVisitor

_Method = Callable[..., Any]


def mend() -> None:
    visitor = cast(Any, ArrowProjectionVisitor)
    if visitor.list.__name__ != "_list":
        visitor.list, visitor.map = _mended_list(visitor.list), _mended_map(visitor.map)


def _mended_list(original: _Method) -> _Method:
    def _list(self: Any, kind: Any, array: Any, values: Any) -> Any:
        is_list = isinstance(array, pa.ListArray | pa.LargeListArray)
        if not is_list or values is None:
            return original(self, kind, array, values)
        values = self._cast_if_needed(kind.element_field, values)
        list_of = pa.large_list if isinstance(array, pa.LargeListArray) else pa.list_
        list_type = list_of(self._construct_field(kind.element_field, values.type))
        return type(array).from_arrays(
            _offsets(array), values, type=list_type, mask=array.is_null()
        )

    return _list


def _mended_map(original: _Method) -> _Method:
    def _map(self: Any, kind: Any, array: Any, keys: Any, values: Any) -> Any:
        if not isinstance(array, pa.MapArray) or keys is None or values is None:
            return original(self, kind, array, keys, values)
        keys = self._cast_if_needed(kind.key_field, keys)
        values = self._cast_if_needed(kind.value_field, values)
        map_type = pa.map_(
            self._construct_field(kind.key_field, keys.type),
            self._construct_field(kind.value_field, values.type),
        )
        mask = array.is_null()
        return pa.MapArray.from_arrays(_offsets(array), keys, values, type=map_type, mask=mask)

    return _map


def _offsets(array: Any) -> pa.Array:
    """As an array of its own: Arrow takes no slice, and a file's batches but the first are slices."""
    return pa.array(array.offsets.to_numpy())
