"""One row per key, the quick check: only the keys that the newest commit changed.

What came before that commit is taken to be right. So if a key changed in several partitions in that
commit, any of these changes may be its last: an older timestamp, not read here, may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from tableflow_assets.verify.by_key import Logged, partition_result
from tableflow_assets.verify.changes import Change, LastChanges
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import Rows, SetAside, one_of
from tableflow_assets.verify.result import Int64s, PartitionResult, Span

FEW_KEYS = 200  # up to here all keys are looked up; beyond, only those in doubt
MANY_KEYS = 2000  # beyond this the whole table is read instead of looking keys up
LookUp = Callable[[BooleanExpression], tuple[Rows, Rows]]  # of this log, and of those before it


class Row(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int


class Offsets(dict[int, list[int]]):
    """Offsets by partition."""

    def add(self, partition: int, offset: int) -> None:
        self.setdefault(partition, []).append(offset)

    def of(self, partition: int) -> Int64s:
        return np.array(self.get(partition, ()), dtype=np.int64)


def compare_newest(
    spans: Sequence[Span],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    set_aside: SetAside,
    keys: Keys,
    provable: Provable,
    look_up: LookUp,
) -> list[PartitionResult]:
    """``rows``: those from the commit's offsets on; others are looked up when needed."""
    present = set(zip(rows.partition.tolist(), rows.offset.tolist(), strict=True))
    last = {identity: (partition, change) for partition, identity, change in changes.last()}
    in_doubt = {
        identity: change.key
        for identity, (partition, change) in last.items()
        if len(last) <= FEW_KEYS or change.deletes or (partition, change.offset) not in present
    }
    rows_in_doubt, superseded = _rows_with(in_doubt, keys, look_up)
    expected, stale, surplus = Offsets(), Offsets(), Offsets()
    for identity, (partition, change) in last.items():
        if identity not in in_doubt:
            expected.add(partition, change.offset)
            continue
        key_rows = rows_in_doubt.get(identity, set())
        rightful = _rightful(identity, partition, change, changes, key_rows)
        if rightful is not None and (rightful in present or rightful[:2] not in _places(key_rows)):
            expected.add(*rightful)
        for row in key_rows:
            if row[:2] == rightful:
                continue
            if row[:2] not in present:
                stale.add(row.partition, row.offset)
            if rightful in _places(key_rows):
                surplus.add(row.partition, row.offset)
    return [
        partition_result(
            span,
            logged(span.partition),
            np.sort(expected.of(span.partition)),
            np.concatenate([rows.offsets_of(span.partition), stale.of(span.partition)]),
            set_aside,
            np.concatenate([surplus.of(span.partition), _twice(rows, span.partition)]),
            np.array(changes.unreadable.get(span.partition, ()), dtype=np.int64),
            provable,
            superseded=superseded.of(span.partition),
        )
        for span in spans
    ]


def _rightful(
    identity: Hashable, partition: int, change: Change, changes: LastChanges, rows: set[Row]
) -> tuple[int, int] | None:
    """Where the key's one row should come from; None if it should have none."""
    candidates = {
        p: by_key[identity] for p, by_key in changes.by_partition.items() if identity in by_key
    }
    for row in rows:
        is_older_commit = row.partition not in candidates
        if is_older_commit and (row.timestamp_ms, row.partition) > (change.latest_ms, partition):
            return row[:2]
    possible = {(p, last.offset) for p, last in candidates.items() if not last.deletes}
    winner = (partition, change.offset)
    if len(candidates) > 1 and winner not in _places(rows):
        stored = possible & _places(rows)
        if stored:
            return min(stored)
        if len(possible) < len(candidates):
            return None
    return None if change.deletes else winner


def _rows_with(
    wanted_keys: dict[Hashable, bytes], keys: Keys, look_up: LookUp
) -> tuple[dict[Hashable, set[Row]], Offsets]:
    """The rows of this log with these keys, and where there are rows of earlier logs with them."""
    if not wanted_keys:
        return {}, Offsets()
    where: BooleanExpression = AlwaysTrue()
    if len(wanted_keys) <= MANY_KEYS:  # only in their buckets
        where = one_of("_kafka.key_hash", {keys.hash(key) for key in wanted_keys.values()})
    rows, earlier = look_up(where)
    rows_by_key: dict[Hashable, set[Row]] = {}
    for row, key in _each(rows):
        identity = keys.identity_of_row(key, row[:2])
        if identity in wanted_keys:
            rows_by_key.setdefault(identity, set()).add(row)
    superseded = Offsets()
    for row, key in _each(earlier):
        if keys.identity_of_row(key, row[:2]) in wanted_keys:
            superseded.add(row.partition, row.offset)
    return rows_by_key, superseded


def _each(rows: Rows) -> Iterator[tuple[Row, bytes | None]]:
    places = zip(
        rows.partition.tolist(), rows.offset.tolist(), rows.timestamp_ms.tolist(), strict=True
    )
    for place, key in zip(places, rows.keys, strict=True):
        yield Row(*place), key


def _places(rows: set[Row]) -> set[tuple[int, int]]:
    return {row[:2] for row in rows}


def _twice(rows: Rows, partition: int) -> Int64s:
    offsets, times = np.unique(rows.offsets_of(partition), return_counts=True)
    return np.repeat(offsets, times - 1)
