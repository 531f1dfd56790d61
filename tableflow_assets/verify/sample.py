"""Some rows, value by value: is every column what the record says?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyiceberg.table import Table

from tableflow_assets.verify.avro import Avro, Unreadable
from tableflow_assets.verify.columns import as_column, as_found, is_same, on_the_wire
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.read_table import Rows, at_offsets
from tableflow_assets.verify.result import Place

KAFKA = "_kafka"
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


def compare_sample(
    sample: Sample, table: Table, snapshot: int, values: Avro, mode: str, keys: Keys | None
) -> dict[int, Compared]:
    """``keys``: of a table that has one row a key."""
    results: dict[int, Compared] = {}
    if not sample.records:
        return results
    offsets: dict[int, list[int]] = {}
    for partition, offset in sample.records:
        offsets.setdefault(partition, []).append(offset)
    scan = table.scan(row_filter=at_offsets(offsets), snapshot_id=snapshot)
    found = on_the_wire(scan.to_arrow())
    kind = scan.projection().as_struct()
    for row in found.to_pylist():
        row = as_found(row, kind)  # noqa: PLW2901  (the same row, in comparable form)
        place = row[KAFKA]
        record = sample.records[place["partition"], place["offset"]]
        columns = {one.name: one.field_type for one in kind.fields if one.name != KAFKA}
        wrong = _differences(record, row, columns, values, mode)
        wrong |= _differences_of_place(record, place, values, keys)
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


def _differences(
    record: Any, row: Mapping[str, Any], columns: Mapping[str, Any], values: Avro, mode: str
) -> Differences:
    """Against the schema that was the newest when the row was written: any since the record's own."""
    framed = record.value()
    if framed is None:
        return _unlike({}, row, columns)
    try:
        versions = values.since(values.schema_id(framed))
        shapes = [(values.shape(version.schema_id), version.schema_id) for version in versions]
        decoded = [(shape, values.read(framed, schema_id)) for shape, schema_id in shapes]
    except Unreadable:
        return {"value": ("bytes that are no value of a known schema", "a row")}
    best: Differences | None = None
    for shape, content in decoded:
        expected = {
            name: as_column(
                content, shape, kind, path=("after", name) if mode == "cdc" else (name,)
            )
            for name, kind in columns.items()
        }
        wrong = _unlike(expected, row, columns)
        if best is None or len(wrong) < len(best):
            best = wrong
    return best or {}


def _unlike(
    expected: Mapping[str, Any], row: Mapping[str, Any], columns: Mapping[str, Any]
) -> Differences:
    return {
        name: (expected.get(name), row[name])
        for name in columns
        if not is_same(expected.get(name), row[name])
    }


def _differences_of_place(
    record: Any, place: Mapping[str, Any], values: Avro, keys: Keys | None
) -> Differences:
    try:
        schema_id = None if record.value() is None else values.schema_id(record.value())
    except Unreadable:
        schema_id = None
    headers = [{"key": name, "value": value} for name, value in record.headers() or ()]
    expected = {
        "timestamp": record.timestamp()[1] * 1000,
        "key": record.key(),
        "headers": headers,
        "schema_id": schema_id,
    }
    if keys is not None and keys.are_plain:
        expected["key_hash"] = keys.hash(record.key())
    present = dict(place) | {"headers": place["headers"] or []}
    return {
        f"{KAFKA}.{name}": (wanted, present.get(name))
        for name, wanted in expected.items()
        if not is_same(wanted, present.get(name))
    }


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
