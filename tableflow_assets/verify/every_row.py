"""Every row of a table, compared with its record value by value, in memory that does not grow with it.

The table is read once, file by file, the oldest rows first. Whenever enough rows have come together, the
log is read from the first of their offsets to the last, and every record is compared as it comes. The
files of a table without keys follow the log, so the log, too, is read about once. Those of a table with
keys do not: there it is read once for every so many rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.table import DataScan, FileScanTask, Table
from pyiceberg.types import PrimitiveType

from tableflow_assets.source.log import Log
from tableflow_assets.verify.read_log import Progress, read_log
from tableflow_assets.verify.read_table import TIMESTAMP
from tableflow_assets.verify.result import Int64s, Span
from tableflow_assets.verify.values import KAFKA, Comparison, Meaning, ValueResult

MOST_ROWS, MOST_BYTES = 500_000, 128 * 1024 * 1024  # of the table that are in memory at once
# A portion reads a part of the log: what is fetched beyond it is wasted.
KILOBYTES_AHEAD = 16 * 1024


def compare_every_row(
    log: Log,
    spans: Sequence[Span],
    table: Table,
    snapshot: int,
    where: BooleanExpression,
    meaning: Meaning,
    on_compared: Progress,
) -> dict[int, ValueResult]:
    """``spans``: what the log still holds. Rows from before that cannot be compared."""
    scan = table.scan(row_filter=where, snapshot_id=snapshot)
    comparison = Comparison(table, scan.projection(), meaning)
    results: dict[int, ValueResult] = {}
    for rows in _portions(scan):
        portion = _Portion(rows, spans, comparison, results)
        read_log(log, portion.spans, [portion], lambda _: None, KILOBYTES_AHEAD)
        on_compared(len(rows))
    return results


class _Portion:
    """Listens for the records of these rows."""

    def __init__(
        self,
        rows: pa.Table,
        spans: Sequence[Span],
        comparison: Comparison,
        results: dict[int, ValueResult],
    ) -> None:
        partitions = _numbers(rows, "partition")
        present = set(np.unique(partitions).tolist())
        self._rows = {
            span.partition: _PartitionRows(
                rows.filter(pa.array(partitions == span.partition)), span
            )
            for span in spans
            if span.partition in present
        }
        self._comparison, self._results = comparison, results

    @property
    def spans(self) -> list[Span]:
        return [rows.span for rows in self._rows.values()]

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        rows, heard = self._rows[partition].of(records)
        if heard:
            differences = self._comparison.differences(heard, rows)
            self._results.setdefault(partition, ValueResult()).add(heard, differences)


class _PartitionRows:
    """Those of one Kafka partition, in the order of their offsets."""

    def __init__(self, rows: pa.Table, span: Span) -> None:
        offsets = _numbers(rows, "offset")
        order = np.argsort(offsets, kind="stable")
        self._rows, self._offsets = rows.take(pa.array(order)), offsets[order]
        first, last = int(self._offsets[0]), int(self._offsets[-1])
        self.span = replace(
            span, start=max(span.start, first), committed=min(span.committed, last + 1)
        )

    def of(self, records: Sequence[Any]) -> tuple[pa.Table, list[Any]]:
        """The rows of these records, and those records that have one."""
        logged = np.fromiter((record.offset() for record in records), np.int64, len(records))
        places = np.searchsorted(self._offsets, logged)
        places = np.minimum(places, len(self._offsets) - 1)
        is_row = self._offsets[places] == logged
        heard = [record for record, is_one in zip(records, is_row.tolist(), strict=True) if is_one]
        return self._rows.take(pa.array(places[is_row])), heard


def _portions(scan: DataScan) -> Iterator[pa.Table]:
    tables: list[pa.Table] = []
    for batch in _batches(scan):
        tables.append(pa.Table.from_batches([batch]))
        if sum(map(len, tables)) >= MOST_ROWS or sum(t.nbytes for t in tables) >= MOST_BYTES:
            yield pa.concat_tables(tables, promote_options="permissive")
            tables = []
    if tables:
        yield pa.concat_tables(tables, promote_options="permissive")


def _batches(scan: DataScan) -> Iterator[pa.RecordBatch]:
    """One file after the other: what pyiceberg has for this reads several whole files ahead."""
    field = scan.projection().find_field(TIMESTAMP)
    kind = cast(PrimitiveType, field.field_type)

    def oldest(task: FileScanTask) -> int:
        bound = (task.file.lower_bounds or {}).get(field.field_id)
        return int(from_bytes(kind, bound)) if bound else 0

    reading = ArrowScan(scan.table_metadata, scan.io, scan.projection(), scan.row_filter)
    for task in sorted(scan.plan_files(), key=oldest):
        deletes = _read_all_delete_files(scan.io, [task])
        yield from reading._record_batches_from_scan_tasks_and_deletes([task], deletes)


def _numbers(rows: pa.Table, field: str) -> Int64s:
    return pc.struct_field(rows[KAFKA], field).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
