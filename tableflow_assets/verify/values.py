"""Rows beside their records, value by value.

Column by column, because Python compares two lists much quicker than their elements: only where they
differ is each looked at, and may then be equal all the same, such as JSON in another spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from tableflow_assets.verify.columns import is_same, with_maps, with_times_as_numbers
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.readers import Reader, Row, Unreadable
from tableflow_assets.verify.timestamps import expected_microseconds

KAFKA, DECODED_KEY = "_kafka", "decoded_key"
SHOWN = 5  # differences per partition that are reported in words


@dataclass(frozen=True)
class Meaning:
    """What the bytes of a topic's records mean, and in which mode they became rows."""

    values: Reader
    keys: Keys
    mode: str
    is_keyed: bool


class Difference(NamedTuple):
    row: int  # of those compared
    column: str
    logged: Any
    stored: Any


class _Column(NamedTuple):
    """What its rows should hold, and what they hold."""

    name: str
    expected: list[Any]
    stored: list[Any]


@dataclass
class ValueResult:
    """The compared rows of one partition."""

    compared: int = 0
    differing: int = 0
    differences: list[str] = field(default_factory=list)

    def add(self, records: Sequence[Any], differences: Sequence[Difference]) -> None:
        """``differences``: those of rows with these records."""
        self.compared += len(records)
        self.differing += len({difference.row for difference in differences})
        for row, column, logged, stored in differences[: SHOWN - len(self.differences)]:
            record = records[row]
            place = f"{record.topic()} {record.partition()}:{record.offset()}"
            self.differences.append(
                f"{place} {column}: the log has {logged!r}, the table {stored!r}"
            )


class Comparison:
    """Of the rows of one table."""

    def __init__(self, table: Table, schema: Schema, meaning: Meaning) -> None:
        """``schema``: that with which the rows are read."""
        self._meaning = meaning
        fields = schema.as_struct().fields
        self._row = StructType(*(f for f in fields if f.name != KAFKA))
        self._around = ("after",) if meaning.mode == "cdc" else ()
        self._key_kind = decoded_key_type(schema.as_struct())
        self._may_lack_keys = not all(
            decoded_key_type(each.as_struct()) for each in table.schemas().values()
        )

    def differences(self, records: Sequence[Any], rows: pa.Table) -> list[Difference]:
        """``records``: one for every row; row by row, those of the values first."""
        rows = with_times_as_numbers(rows)
        expected, found = self._expected(records)
        unreadable = {difference.row for difference in found}
        columns = [*self._values(expected, rows), *self._place(records, rows)]
        for name, logged, stored in columns:
            if logged == stored:
                continue
            is_value = not name.startswith(f"{KAFKA}.")
            found += [
                Difference(n, name, one, other)
                for n, (one, other) in enumerate(zip(logged, stored, strict=True))
                if not is_same(one, other) and not (is_value and n in unreadable)
            ]
        return sorted(found, key=lambda difference: difference.row)

    def _expected(self, records: Sequence[Any]) -> tuple[list[Row], list[Difference]]:
        """What each row's columns should hold, by name; and the records that are no rows at all."""
        read, as_row = self._meaning.values.read, self._meaning.values.as_row
        expected: list[Row] = []
        unreadable = []
        for n, record in enumerate(records):
            value = record.value()
            try:
                expected.append(
                    {} if value is None else as_row(read(value), self._around, self._row)
                )
            except Unreadable as error:
                logged = f"bytes that fit no schema of the subject ({error})"
                unreadable.append(Difference(n, "value", logged, "a row"))
                expected.append({})
        return expected, unreadable

    def _values(self, expected: list[Row], rows: pa.Table) -> Iterator[_Column]:
        for f in self._row.fields:
            stored = _python(rows[f.name], f.field_type)
            yield _Column(f.name, [row.get(f.name) for row in expected], stored)

    def _place(self, records: Sequence[Any], rows: pa.Table) -> Iterator[_Column]:
        kafka = rows[KAFKA]

        def column(name: str, expected: list[Any], stored: list[Any] | None = None) -> _Column:
            if stored is None:
                stored = pc.struct_field(kafka, name).to_pylist()
            return _Column(f"{KAFKA}.{name}", expected, stored)

        times = pc.struct_field(kafka, "timestamp").to_pylist()
        yield column("timestamp", list(map(expected_microseconds, records, times)), times)
        keys = [record.key() for record in records]
        yield column("key", keys)
        headers = [[_header(*pair) for pair in record.headers() or ()] for record in records]
        stored = pc.struct_field(kafka, "headers").to_pylist()
        yield column("headers", headers, [each or [] for each in stored])
        ids = _each(self._meaning.values.schema_id, [record.value() for record in records])
        yield column("schema_id", ids)
        if self._meaning.is_keyed:
            yield column("key_hash", _each(self._meaning.keys.hash, keys))
        if self._key_kind is not None:
            stored = _python(pc.struct_field(kafka, DECODED_KEY), self._key_kind)
            yield column(DECODED_KEY, self._decoded_keys(keys, stored, self._key_kind), stored)

    def _decoded_keys(
        self, keys: list[bytes | None], stored: list[Any], kind: IcebergType
    ) -> list[Any]:
        reader = self._meaning.keys.reader
        expected: list[Any] = []
        for key, decoded in zip(keys, stored, strict=True):
            if key is None or (decoded is None and self._may_lack_keys):
                expected.append(None)
                continue
            try:
                expected.append(reader.as_column(reader.read(key), (), kind))
            except Unreadable as error:
                expected.append(f"bytes that are no key ({error})")
        return expected


def decoded_key_type(table: StructType) -> IcebergType | None:
    kafka = next((f.field_type for f in table.fields if f.name == KAFKA), None)
    fields = kafka.fields if isinstance(kafka, StructType) else ()
    return next((f.field_type for f in fields if f.name == DECODED_KEY), None)


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    return {"key": name, "value": value}


def _python(column: pa.ChunkedArray, kind: IcebergType) -> list[Any]:
    values = column.to_pylist()
    return [with_maps(value, kind) for value in values] if _has_maps(kind) else values


def _has_maps(kind: IcebergType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_maps(f.field_type) for f in kind.fields)
    return isinstance(kind, MapType) or (
        isinstance(kind, ListType) and _has_maps(kind.element_type)
    )


def _each(find: Callable[[bytes], Any], every: Sequence[bytes | None]) -> list[Any]:
    """None for bytes that cannot be read."""
    found = []
    for data in every:
        try:
            found.append(None if data is None else find(data))
        except Unreadable:
            found.append(None)
    return found
