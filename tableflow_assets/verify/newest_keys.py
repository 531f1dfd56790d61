"""One row a key, a quick look: only the keys that the newest commit changed.

What came before that commit is taken as right. So of a key that changed in several partitions in one
commit, whichever of these changes may be the last: an older timestamp, unseen here, may decide.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import numpy as np
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from tableflow_assets.verify.by_key import Logged, judged
from tableflow_assets.verify.changes import Change, LastChanges
from tableflow_assets.verify.keys import Keys
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import Aside, Rows, one_of
from tableflow_assets.verify.result import Int64s, PartitionResult, Place

FEW_KEYS = 200  # so many are looked up one and all; of more, only those that are in doubt
MANY_KEYS = 2000  # more than this are not looked up, but picked from all rows
LookUp = Callable[[BooleanExpression], Rows]


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
    places: Sequence[Place],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    aside: Aside,
    keys: Keys,
    provable: Provable,
    look_up: LookUp,
) -> list[PartitionResult]:
    """``rows``: those from the commit's offsets on; others are looked up as far as needed."""
    present = set(zip(rows.partition.tolist(), rows.offset.tolist(), strict=True))
    last = {identity: (partition, change) for partition, identity, change in changes.last()}
    in_doubt = {
        identity: change.key
        for identity, (partition, change) in last.items()
        if len(last) <= FEW_KEYS or change.deletes or (partition, change.offset) not in present
    }
    held = _rows_with(in_doubt, keys, look_up)
    expected, stale, surplus = Offsets(), Offsets(), Offsets()
    for identity, (partition, change) in last.items():
        if identity not in in_doubt:
            expected.add(partition, change.offset)
            continue
        mine = held.get(identity, set())
        rightful = _rightful(identity, partition, change, changes, mine)
        if rightful is not None and (rightful in present or rightful[:2] not in _places(mine)):
            expected.add(*rightful)
        for row in mine:
            if row[:2] == rightful:
                continue
            if row[:2] not in present:
                stale.add(row.partition, row.offset)
            if rightful in _places(mine):
                surplus.add(row.partition, row.offset)
    return [
        judged(
            place,
            logged(place.partition),
            np.sort(expected.of(place.partition)),
            np.concatenate([rows.offsets_of(place.partition), stale.of(place.partition)]),
            aside,
            np.concatenate([surplus.of(place.partition), _twice(rows, place.partition)]),
            np.array(changes.unreadable.get(place.partition, ()), dtype=np.int64),
            provable,
        )
        for place in places
    ]


def _rightful(
    identity: Hashable, partition: int, change: Change, changes: LastChanges, rows: set[Row]
) -> tuple[int, int] | None:
    """Where the key's one row comes from; None: it should have none."""
    heard = {p: known[identity] for p, known in changes.by_partition.items() if identity in known}
    for row in rows:
        is_older_commit = row.partition not in heard
        if is_older_commit and (row.timestamp_ms, row.partition) > (change.latest_ms, partition):
            return row[:2]
    possible = {(p, one.offset) for p, one in heard.items() if not one.deletes}
    winner = (partition, change.offset)
    if len(heard) > 1 and winner not in _places(rows):
        there = possible & _places(rows)
        if there:
            return min(there)
        if len(possible) < len(heard):
            return None
    return None if change.deletes else winner


def _rows_with(
    wanted: dict[Hashable, bytes], keys: Keys, look_up: LookUp
) -> dict[Hashable, set[Row]]:
    if not wanted:
        return {}
    where: BooleanExpression = AlwaysTrue()
    if len(wanted) <= MANY_KEYS:  # only in their buckets
        where = one_of("_kafka.key_hash", {keys.hash(key) for key in wanted.values()})
    rows = look_up(where)
    found: dict[Hashable, set[Row]] = {}
    places = zip(
        rows.partition.tolist(), rows.offset.tolist(), rows.timestamp_ms.tolist(), strict=True
    )
    for place, key in zip(places, rows.keys, strict=True):
        row = Row(*place)
        identity = keys.identity_of_row(key, row[:2])
        if identity in wanted:
            found.setdefault(identity, set()).add(row)
    return found


def _places(rows: set[Row]) -> set[tuple[int, int]]:
    return {row[:2] for row in rows}


def _twice(rows: Rows, partition: int) -> Int64s:
    offsets, times = np.unique(rows.offsets_of(partition), return_counts=True)
    return np.repeat(offsets, times - 1)
