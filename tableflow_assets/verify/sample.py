"""Some rows, value by value: is every column what the record says?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, StructType

from tableflow_assets.verify.columns import as_found, is_same, on_the_wire
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.read_table import Rows, at_offsets
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.result import Place

KAFKA, DECODED_KEY = "_kafka", "decoded_key"
SHOWN = 5  # differences of a partition that are told in words


class Sample:
    """Listens for the records of chosen rows."""

    def __init__(self, rows: Rows, places: Sequence[Place], count: int, seed: int) -> None:
        self.wanted = _chosen(rows, places, count, seed)
        self.records: dict[tuple[int, int], Any] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        if wanted := self.wanted.get(partition):
            for record in records:
                if (offset := record.offset()) in wanted:
                    self.records[partition, offset] = record


@dataclass
class Compared:
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
    sample: Sample, table: Table, snapshot: int, meaning: Meaning
) -> dict[int, Compared]:
    results: dict[int, Compared] = {}
    if not sample.records:
        return results
    offsets: dict[int, list[int]] = {}
    for partition, offset in sample.records:
        offsets.setdefault(partition, []).append(offset)
    scan = table.scan(row_filter=at_offsets(offsets), snapshot_id=snapshot)
    found = on_the_wire(scan.to_arrow())
    kind = scan.projection().as_struct()
    may_lack_keys = not all(
        decoded_key_type(schema.as_struct()) for schema in table.schemas().values()
    )
    for row in found.to_pylist():
        row = as_found(row, kind)  # noqa: PLW2901  (the same row, in comparable form)
        place = row[KAFKA]
        record = sample.records[place["partition"], place["offset"]]
        wrong = _differences(record, row, kind, meaning)
        wrong |= _differences_of_place(record, place, meaning)
        if key_kind := decoded_key_type(kind):
            is_of_before = may_lack_keys and place[DECODED_KEY] is None
            wrong |= {} if is_of_before else _differences_of_key(record, place, key_kind, meaning)
        compared = results.setdefault(place["partition"], Compared())
        compared.sampled += 1
        compared.differing += bool(wrong)
        compared.differences += [
            f"{record.topic()} {place['partition']}:{place['offset']} {column}:"
            f" the log has {wanted!r}, the table {present!r}"
            for column, (wanted, present) in wrong.items()
        ][: SHOWN - len(compared.differences)]
    return results


Differences = dict[str, tuple[Any, Any]]  # by column: what the log has, what the table has


def decoded_key_type(table: StructType) -> IcebergType | None:
    kafka = next((f.field_type for f in table.fields if f.name == KAFKA), None)
    fields = kafka.fields if isinstance(kafka, StructType) else ()
    return next((f.field_type for f in fields if f.name == DECODED_KEY), None)


def _differences(
    record: Any, row: Mapping[str, Any], kind: StructType, meaning: Meaning
) -> Differences:
    columns = {one.name: one.field_type for one in kind.fields if one.name != KAFKA}
    expected: dict[str, Any] = {}
    values, around = meaning.values, ("after",) if meaning.mode == "cdc" else ()
    if record.value() is not None:
        try:
            content = values.read(record.value())
            expected = {
                name: values.as_column(content, (*around, name), one)
                for name, one in columns.items()
            }
        except Unreadable as error:
            return {"value": (f"bytes that are no value of a known schema ({error})", "a row")}
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
        "timestamp": record.timestamp()[1] * 1000,
        "key": record.key(),
        "headers": headers,
        "schema_id": _unless_unreadable(meaning.values.schema_id, record.value()),
    }
    if meaning.is_keyed:
        expected["key_hash"] = _unless_unreadable(meaning.keys.hash, record.key())
    present = dict(place) | {"headers": place["headers"] or []}
    return {
        f"{KAFKA}.{name}": (wanted, present.get(name))
        for name, wanted in expected.items()
        if not is_same(wanted, present.get(name))
    }


def _unless_unreadable(find: Callable[[bytes], Any], data: bytes | None) -> Any:
    try:
        return None if data is None else find(data)
    except Unreadable:
        return None


def _chosen(
    rows: Rows, places: Sequence[Place], count: int, seed: int
) -> dict[int, frozenset[int]]:
    """Of the rows whose records the log still holds; the same ones for the same seed."""
    offsets = []
    for place in places:
        mine = np.unique(rows.offsets_of(place.partition))
        mine = mine[(mine >= place.start) & (mine < place.committed)]
        offsets.append(np.stack([np.full_like(mine, place.partition), mine], axis=1))
    everything = np.concatenate([np.empty((0, 2), dtype=np.int64), *offsets])
    random = np.random.default_rng(seed)
    picked = random.permutation(len(everything))[:count]
    chosen: dict[int, set[int]] = {}
    for partition, offset in everything[picked].tolist():
        chosen.setdefault(partition, set()).add(offset)
    return {partition: frozenset(known) for partition, known in chosen.items()}
