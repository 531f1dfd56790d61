"""Decoded Protobuf values in the table's shape, a whole array at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tableflow_assets.decode.protobuf.shape import Field, Leaf, ListOf, MapOf, Shape, Struct
from tableflow_assets.decode.protobuf.wire import MALFORMED, OUT_OF_RANGE

Rows = npt.NDArray[np.int64]  # for each value, the row that it is part of
JsonText = Callable[[str, bytes], str | None]

_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "unsigned": pa.decimal128(20, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "json": pa.string(),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "duration": pa.int64(),
}
_FIRST_MICROSECOND = -62_135_596_800_000_000  # 0001-01-01, as Protobuf's Timestamp
_LAST_MICROSECOND = 253_402_300_799_999_999  # 9999-12-31T23:59:59.999999
_LONGEST_DURATION = 315_576_000_000_999_999  # microseconds of 10,000 years, as Protobuf's Duration
_EPOCH_DAY = np.datetime64("1970-01-01", "D")


def arrow_type(shape: Shape) -> pa.DataType:
    if isinstance(shape, Leaf):
        return _ARROW[shape.kind]
    if isinstance(shape, ListOf):
        return pa.list_(pa.field("element", arrow_type(shape.element)))
    if isinstance(shape, MapOf):
        return pa.map_(arrow_type(shape.key), arrow_type(shape.value))
    if not shape.fields:
        return pa.bool_()
    return struct_type(shape)


def struct_type(shape: Struct) -> pa.StructType:
    return pa.struct([pa.field(f.name, arrow_type(f.shape)) for f in shape.fields])


class Conformer:
    """Collects the rows with a value that cannot be expressed, and why, in ``bad_rows``."""

    def __init__(self, json_text: JsonText) -> None:
        self._json_text = json_text
        self.bad_rows: dict[int, str] = {}

    def rows(self, batch: pa.RecordBatch, source: Struct, target: Struct) -> pa.StructArray:
        rows = np.arange(batch.num_rows)
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True))
        children = self._children(arrays, source, target, batch.num_rows, rows)
        if not children:  # from_arrays would not know the number of rows
            return pa.array([{}] * batch.num_rows, struct_type(target))
        return pa.StructArray.from_arrays(children, fields=list(struct_type(target)))

    def _children(
        self,
        arrays: Mapping[str, pa.Array],
        source: Struct,
        target: Struct,
        length: int,
        rows: Rows,
    ) -> list[pa.Array]:
        # By name: the arrays are in the order of the fields' numbers.
        sources = {f.name: (f, arrays[f.name]) for f in source.fields}
        return [
            self._child(*sources[f.name], f.shape, rows)
            if f.name in sources
            else pa.nulls(length, arrow_type(f.shape))
            for f in target.fields
        ]

    def _child(self, source: Field, array: pa.Array, target: Shape, rows: Rows) -> pa.Array:
        if source.default is not None and array.null_count:
            array = pc.fill_null(array, pa.scalar(source.default, array.type))
        return self._value(array, source.shape, target, rows)

    def _value(self, array: pa.Array, source: Shape, target: Shape, rows: Rows) -> pa.Array:
        if isinstance(source, Leaf):
            return self._leaf(array, source, arrow_type(target), rows)
        if isinstance(source, ListOf) and isinstance(target, ListOf):
            inner = np.repeat(rows, _lengths(array))
            values = self._value(array.values, source.element, target.element, inner)
            return pa.ListArray.from_arrays(array.offsets, values, type=arrow_type(target))
        if isinstance(source, MapOf) and isinstance(target, MapOf):
            return self._map(array, source, target, rows)
        if isinstance(source, Struct) and isinstance(target, Struct):
            return self._struct(array, source, target, rows)
        raise TypeError(
            f"{source} cannot become {target}: merging the versions allows no such pair"
        )

    def _struct(self, array: pa.Array, source: Struct, target: Struct, rows: Rows) -> pa.Array:
        if not target.fields:
            return pc.if_else(array.is_valid(), True, pa.scalar(None, pa.bool_()))
        arrays = {field.name: array.field(field.name) for field in array.type}
        children = self._children(arrays, source, target, len(array), rows)
        fields = list(struct_type(target))
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null())

    def _map(self, array: pa.Array, source: MapOf, target: MapOf, rows: Rows) -> pa.Array:
        lengths = _lengths(array)
        offsets, keys, items = array.offsets, array.keys, array.items
        entries = _last_of_each_key(lengths, keys)
        if entries is not None:
            owners = np.repeat(np.arange(len(array)), lengths)[entries]
            lengths = np.bincount(owners, minlength=len(array))
            offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))), pa.int32())
            keys, items = keys.take(pa.array(entries)), items.take(pa.array(entries))
        inner = np.repeat(rows, lengths)
        return pa.MapArray.from_arrays(
            offsets,
            self._leaf(keys, source.key, arrow_type(target.key), inner),
            self._value(items, source.value, target.value, inner),
            type=arrow_type(target),
        )

    def _leaf(self, array: pa.Array, source: Leaf, target: pa.DataType, rows: Rows) -> pa.Array:
        if source.kind == "json":
            return self._json(_joined(array), source.message, rows)
        if source.kind == "date":
            return _dates(array)
        if source.kind == "timestamp":
            return self._within(array, _FIRST_MICROSECOND, _LAST_MICROSECOND, rows)
        if source.kind == "duration":
            return self._within(array.cast(target), -_LONGEST_DURATION, _LONGEST_DURATION, rows)
        return array if array.type.equals(target) else array.cast(target)

    def _json(self, array: pa.Array, message: str, rows: Rows) -> pa.Array:
        texts: list[str | None] = []
        for index, content in enumerate(array.to_pylist()):
            text = None if content is None else self._json_text(message, content)
            if text is None and content is not None:
                self.bad_rows[int(rows[index])] = MALFORMED
            texts.append(text)
        return pa.array(texts, pa.string())

    def _within(self, array: pa.Array, first: int, last: int, rows: Rows) -> pa.Array:
        """Out of range is what Protobuf does not define: damage, or a number that was never a time."""
        numbers = array.cast(pa.int64())
        extremes = pc.min_max(numbers)
        least, most = extremes["min"].as_py(), extremes["max"].as_py()
        if least is None or (least >= first and most <= last):
            return array
        is_beyond = pc.or_(pc.less(numbers, first), pc.greater(numbers, last))
        beyond = np.flatnonzero(pc.fill_null(is_beyond, False).to_numpy(zero_copy_only=False))
        self.bad_rows.update(dict.fromkeys(map(int, rows[beyond]), OUT_OF_RANGE))
        return array


def _lengths(array: Any) -> Rows:
    lengths: Rows = np.diff(array.offsets.to_numpy()).astype(np.int64)
    return lengths


def _last_of_each_key(lengths: Rows, keys: pa.Array) -> Rows | None:
    """The entries to keep: Protobuf's rule for a key that a map has twice. None if none has."""
    if not len(lengths) or lengths.max() < 2:  # noqa: PLR2004
        return None
    owners = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    table = pa.table({"owner": owners, "key": keys, "at": np.arange(len(keys))})
    last = table.group_by(["owner", "key"]).aggregate([("at", "max")])["at_max"]
    entries: Rows = np.sort(last.to_numpy())
    return None if len(entries) == len(keys) else entries


def _joined(occurrences: pa.Array) -> pa.Array:
    """NULL if there are none; elements of lists and maps occur once."""
    if not pa.types.is_list(occurrences.type):
        return occurrences
    is_there = pc.greater(pc.list_value_length(occurrences), 0)
    return pc.if_else(is_there, pc.binary_join(occurrences, b""), pa.scalar(None, pa.binary()))


def _dates(array: pa.Array) -> pa.Array:
    """From structs of year, month and day; NULL if they are not a day of the years 1 to 9999."""
    year, month, day = (
        np.asarray(pc.fill_null(array.field(i), 0), dtype=np.int64) for i in range(3)
    )
    is_day = (year >= 1) & (year <= 9999) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)  # noqa: PLR2004
    months = np.where(is_day, (year - 1970) * 12 + month - 1, 0).astype("datetime64[M]")
    days = months.astype("datetime64[D]") + np.where(is_day, day - 1, 0)
    is_day &= days.astype("datetime64[M]") == months  # else February 30 would be in March
    is_day &= np.asarray(array.is_valid())
    return pa.array((days - _EPOCH_DAY).astype(np.int32), pa.int32(), mask=~is_day).cast(
        pa.date32()
    )
