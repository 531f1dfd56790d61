"""A sample of rows, compared with their records value by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, StructType

from tableflow_assets.verify.columns import is_same, with_maps, with_times_as_numbers
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.read_table import Rows, at_offsets
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.result import Span
from tableflow_assets.verify.timestamps import expected_microseconds

KAFKA, DECODED_KEY = "_kafka", "decoded_key"
SHOWN = 5  # differences per partition that are reported in words


class Sample:
    """Listens for the records of chosen rows."""

    def __init__(self, rows: Rows, spans: Sequence[Span], count: int, seed: int) -> None:
        self.offsets = _chosen(rows, spans, count, seed)
        self.records: dict[tuple[int, int], Any] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        if offsets := self.offsets.get(partition):
            for record in records:
                if (offset := record.offset()) in offsets:
                    self.records[partition, offset] = record


@dataclass
class SampleResult:
    """The sampled rows of one partition."""

    sampled: int = 0
    differing: int = 0
    differences: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Meaning:
    """What the bytes of a topic's records mean, and in which mode they became rows."""

    values: Reader
    keys: Keys
    mode: str
    is_keyed: bool


def compare_sample(
    sample: Sample, table: Table, snapshot: int, this_log: BooleanExpression, meaning: Meaning
) -> dict[int, SampleResult]:
    """``this_log``: only its rows; those of another may be at the same offsets."""
    results: dict[int, SampleResult] = {}
    if not sample.records:
        return results
    offsets: dict[int, list[int]] = {}
    for partition, offset in sample.records:
        offsets.setdefault(partition, []).append(offset)
    scan = table.scan(row_filter=And(this_log, at_offsets(offsets)), snapshot_id=snapshot)
    rows = with_times_as_numbers(scan.to_arrow())
    kind = scan.projection().as_struct()
    may_lack_keys = not all(
        decoded_key_type(schema.as_struct()) for schema in table.schemas().values()
    )
    for values in rows.to_pylist():
        row = with_maps(values, kind)
        place = row[KAFKA]
        record = sample.records[place["partition"], place["offset"]]
        differences = _differences(record, row, kind, meaning)
        differences |= _differences_of_place(record, place, meaning)
        if key_kind := decoded_key_type(kind):
            has_no_key_yet = may_lack_keys and place[DECODED_KEY] is None
            if not has_no_key_yet:
                differences |= _differences_of_key(record, place, key_kind, meaning)
        result = results.setdefault(place["partition"], SampleResult())
        result.sampled += 1
        result.differing += bool(differences)
        result.differences += [
            f"{record.topic()} {place['partition']}:{place['offset']} {column}:"
            f" the log has {logged!r}, the table {stored!r}"
            for column, (logged, stored) in differences.items()
        ][: SHOWN - len(result.differences)]
    return results


Differences = dict[str, tuple[Any, Any]]  # by column: what the log has, what the table has


def decoded_key_type(table: StructType) -> IcebergType | None:
    kafka = next((f.field_type for f in table.fields if f.name == KAFKA), None)
    fields = kafka.fields if isinstance(kafka, StructType) else ()
    return next((f.field_type for f in fields if f.name == DECODED_KEY), None)


def _differences(
    record: Any, row: Mapping[str, Any], kind: StructType, meaning: Meaning
) -> Differences:
    columns = {f.name: f.field_type for f in kind.fields if f.name != KAFKA}
    expected: dict[str, Any] = {}
    values, around = meaning.values, ("after",) if meaning.mode == "cdc" else ()
    if record.value() is not None:
        try:
            content = values.read(record.value())
            expected = {
                name: values.as_column(content, (*around, name), column)
                for name, column in columns.items()
            }
        except Unreadable as error:
            return {"value": (f"bytes that fit no schema of the subject ({error})", "a row")}
    return {
        name: (expected.get(name), row[name])
        for name in columns
        if not is_same(expected.get(name), row[name])
    }


def _differences_of_key(
    record: Any, place: Mapping[str, Any], kind: IcebergType, meaning: Meaning
) -> Differences:
    column, reader, expected = f"{KAFKA}.{DECODED_KEY}", meaning.keys.reader, None
    if record.key() is not None:
        try:
            expected = reader.as_column(reader.read(record.key()), (), kind)
        except Unreadable as error:
            return {column: (f"bytes that are no key ({error})", place[DECODED_KEY])}
    if is_same(expected, place[DECODED_KEY]):
        return {}
    return {column: (expected, place[DECODED_KEY])}


def _differences_of_place(record: Any, place: Mapping[str, Any], meaning: Meaning) -> Differences:
    headers = [{"key": name, "value": value} for name, value in record.headers() or ()]
    expected = {
        "timestamp": expected_microseconds(record, place["timestamp"]),
        "key": record.key(),
        "headers": headers,
        "schema_id": _unless_unreadable(meaning.values.schema_id, record.value()),
    }
    if meaning.is_keyed:
        expected["key_hash"] = _unless_unreadable(meaning.keys.hash, record.key())
    stored = dict(place) | {"headers": place["headers"] or []}
    return {
        f"{KAFKA}.{name}": (value, stored.get(name))
        for name, value in expected.items()
        if not is_same(value, stored.get(name))
    }


def _unless_unreadable(find: Callable[[bytes], Any], data: bytes | None) -> Any:
    try:
        return None if data is None else find(data)
    except Unreadable:
        return None


def _chosen(rows: Rows, spans: Sequence[Span], count: int, seed: int) -> dict[int, frozenset[int]]:
    """From the rows whose records the log still holds; the same ones for the same seed."""
    places = [np.empty((0, 2), dtype=np.int64)]  # partition and offset
    for span in spans:
        offsets = np.unique(rows.offsets_of(span.partition))
        offsets = offsets[(offsets >= span.start) & (offsets < span.committed)]
        places.append(np.stack([np.full_like(offsets, span.partition), offsets], axis=1))
    candidates = np.concatenate(places)
    random = np.random.default_rng(seed)
    indexes = random.permutation(len(candidates))[:count]
    chosen: dict[int, set[int]] = {}
    for partition, offset in candidates[indexes].tolist():
        chosen.setdefault(partition, set()).add(offset)
    return {partition: frozenset(offsets) for partition, offsets in chosen.items()}
