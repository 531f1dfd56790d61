"""A sample of rows, compared with their records value by value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression
from pyiceberg.table import Table

from tableflow_assets.verify.read_table import Rows, at_offsets
from tableflow_assets.verify.result import Span
from tableflow_assets.verify.values import KAFKA, Comparison, Meaning, ValueResult


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


def compare_sample(
    sample: Sample, table: Table, snapshot: int, this_log: BooleanExpression, meaning: Meaning
) -> dict[int, ValueResult]:
    """``this_log``: only its rows; those of another may be at the same offsets."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in sample.records:
        offsets.setdefault(partition, []).append(offset)
    scan = table.scan(row_filter=And(this_log, at_offsets(offsets)), snapshot_id=snapshot)
    rows, comparison = scan.to_arrow(), Comparison(table, scan.projection(), meaning)
    places = rows[KAFKA]
    results: dict[int, ValueResult] = {}
    for partition in offsets:
        inside = rows.filter(pc.equal(pc.struct_field(places, "partition"), partition))
        records = [sample.records[partition, offset] for offset in _offsets(inside)]
        results.setdefault(partition, ValueResult()).add(
            records, comparison.differences(records, inside)
        )
    return results


def _offsets(rows: pa.Table) -> list[int]:
    return pc.struct_field(rows[KAFKA], "offset").to_pylist()  # type: ignore[no-any-return]


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
