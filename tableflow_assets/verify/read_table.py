"""The table and its dead letters, as pyiceberg reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    Or,
)
from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX
from tableflow_assets.table.ledger import Entry, Ledger
from tableflow_assets.verify.dropped import Dropped
from tableflow_assets.verify.result import NONE, Int64s
from tableflow_assets.verify.timestamps import row_milliseconds

# Their constructors accept a column's name, though their type hints do not say so.
_EqualTo, _GreaterThanOrEqual, _In = cast(Any, (EqualTo, GreaterThanOrEqual, In))
_LessThan, _IsNull = cast(Any, (LessThan, IsNull))
PARTITION, OFFSET, TIMESTAMP = "_kafka.partition", "_kafka.offset", "_kafka.timestamp"
EPOCH = "_kafka.epoch"  # which log a row is from; tables that have read only one do not have it
REPLAY = "replay_id"  # of a dead letter; tables older than replays do not have it
_LETTER_COLUMNS = ("partition", "offset", "timestamp", "skipped", REPLAY)


@dataclass(frozen=True)
class Rows:
    """Where rows come from, column by column; ``keys`` only on request."""

    partition: Int64s
    offset: Int64s
    timestamp_ms: Int64s = field(default_factory=lambda: NONE)
    keys: tuple[bytes | None, ...] = ()

    @property
    def partitions(self) -> list[int]:
        return pa.array(self.partition).unique().to_pylist()  # type: ignore[no-any-return]

    def offsets_of(self, partition: int) -> Int64s:
        return self.offset[self.partition == partition]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SetAside:
    """Records that are not rows: dead letters, or skipped ones, of which only the offset is kept."""

    dead: Mapping[int, Int64s]
    skipped: Mapping[int, Int64s]

    def offsets_of(self, partition: int) -> Int64s:
        return np.concatenate([self.dead.get(partition, NONE), self.skipped.get(partition, NONE)])


def from_offsets(begin: Mapping[int, int]) -> BooleanExpression:
    """Rows from these offsets on; thanks to their statistics, files of older commits are not read."""
    return _any_of(
        And(_EqualTo(PARTITION, partition), _GreaterThanOrEqual(OFFSET, offset))
        for partition, offset in begin.items()
    )


def from_log(entry: Entry) -> BooleanExpression:
    """Rows of the log that the table reads now."""
    return _GreaterThanOrEqual(EPOCH, entry.epoch) if entry.earlier else AlwaysTrue()


def at_offsets(places: Mapping[int, Iterable[int]]) -> BooleanExpression:
    return _any_of(
        And(_EqualTo(PARTITION, partition), one_of(OFFSET, offsets))
        for partition, offsets in places.items()
    )


def one_of(column: str, values: Iterable[int] | Iterable[bytes]) -> BooleanExpression:
    return _In(column, set(values))  # type: ignore[no-any-return]


def _any_of(conditions: Iterable[BooleanExpression]) -> BooleanExpression:
    return Or(AlwaysFalse(), AlwaysFalse(), *conditions)


def read_rows(
    table: Table, snapshot: int, where: BooleanExpression | str, *, with_keys: bool
) -> Rows:
    columns = (PARTITION, OFFSET, *((TIMESTAMP, "_kafka.key") if with_keys else ()))
    scan = table.scan(row_filter=where, snapshot_id=snapshot, selected_fields=columns)
    rows = scan.to_arrow().flatten()
    if not with_keys:
        return Rows(_numbers(rows, PARTITION), _numbers(rows, OFFSET))
    return Rows(
        _numbers(rows, PARTITION),
        _numbers(rows, OFFSET),
        _milliseconds(rows, TIMESTAMP),
        tuple(rows["_kafka.key"].to_pylist()),
    )


def read_earlier_rows(
    table: Table, ledger: Ledger, where: BooleanExpression, *, with_keys: bool
) -> Rows:
    """Such rows of the logs that the table read before: their offsets say nothing about this one."""
    if not ledger.entry.earlier:
        return Rows(NONE, NONE)
    of_earlier_logs = Or(_IsNull(EPOCH), _LessThan(EPOCH, ledger.entry.epoch))
    return read_rows(table, ledger.head, And(where, of_earlier_logs), with_keys=with_keys)


def read_dropped_rows(table: Table, snapshot: int, dropped: Dropped) -> dict[int, Int64s]:
    """By Kafka partition, the offsets of rows that should be gone; few files have any so old."""
    if dropped.latest is None:
        return {}
    where = _LessThan(TIMESTAMP, dropped.latest.isoformat())
    columns = (PARTITION, OFFSET, TIMESTAMP)
    scan = table.scan(row_filter=where, snapshot_id=snapshot, selected_fields=columns)
    rows = scan.to_arrow().flatten()
    partitions, offsets = _numbers(rows, PARTITION), _numbers(rows, OFFSET)
    is_dropped = dropped.covers(partitions, offsets, _milliseconds(rows, TIMESTAMP))
    partitions, offsets = partitions[is_dropped], offsets[is_dropped]
    return {int(number): offsets[partitions == number] for number in np.unique(partitions)}


def read_set_aside(
    catalog: RestCatalog, table_name: str, ledger: Ledger, begin: Mapping[int, int]
) -> SetAside:
    """From the offsets ``begin`` on, of this topic and of the table's current lineage.

    Without those that retention dropped: the ledger says which, though they are deleted only later.
    """
    table = catalog.find(table_name + DEAD_LETTER_SUFFIX)
    if table is None:
        return SetAside({}, {})
    letters = table.scan(
        row_filter=And(
            _EqualTo("topic_id", ledger.topic_id), _EqualTo("lineage", ledger.entry.lineage)
        ),
        selected_fields=tuple(
            name for name in _LETTER_COLUMNS if name in table.schema().column_names
        ),
    ).to_arrow()
    if REPLAY in letters.column_names:  # replayed letters are rows now
        replayed = pa.array(ledger.entry.replays, pa.string())
        letters = letters.filter(pc.invert(pc.is_in(letters[REPLAY].cast(pa.string()), replayed)))
    partitions, offsets = _numbers(letters, "partition"), _numbers(letters, "offset")
    is_skipped = letters["skipped"].fill_null(False).to_numpy()
    milliseconds = _milliseconds(letters, "timestamp")
    is_dropped = Dropped(ledger.entry).covers(partitions, offsets, milliseconds)
    dead, skipped = {}, {}
    for partition, committed in ledger.committed.items():
        # Letters at or beyond the ledger's end were written ahead of a commit that did not happen.
        is_in_range = (offsets >= begin.get(partition, 0)) & (offsets < committed)
        is_set_aside = is_in_range & (partitions == partition) & ~is_dropped
        dead[partition] = offsets[is_set_aside & ~is_skipped]
        skipped[partition] = offsets[is_set_aside & is_skipped]
    return SetAside(dead, skipped)


def _milliseconds(table: pa.Table, column: str) -> Int64s:
    return row_milliseconds(table[column].cast(pa.int64()).to_numpy())


def _numbers(table: pa.Table, column: str) -> Int64s:
    return table[column].to_numpy().astype(np.int64)  # type: ignore[no-any-return]
