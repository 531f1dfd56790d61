"""One row a key: the table holds the last change of every key, unless that was a deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from tableflow_assets.verify.changes import Change, LastChanges
from tableflow_assets.verify.keys import Erased, Keys
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import Aside, Rows
from tableflow_assets.verify.result import NONE, Int64s, PartitionResult, Place, first

Logged = Callable[[int], Int64s]  # a partition's offsets that hold a record


def compare(
    places: Sequence[Place],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    aside: Aside,
    keys: Keys,
    erased: Erased,
    provable: Provable,
) -> list[PartitionResult]:
    identities = _identities(rows, keys)
    unproven = _rely_on_rows_beyond_the_log(
        places, logged, changes, rows, identities, erased, provable
    )
    expected = changes.expected_rows()
    surplus = _rows_of_one_key_too_many(rows, identities, expected)
    return [
        judged(
            place,
            logged(place.partition),
            expected.get(place.partition, NONE),
            rows.offsets_of(place.partition),
            aside,
            surplus.get(place.partition, NONE),
            np.array(changes.unreadable.get(place.partition, ()), dtype=np.int64),
            provable,
            unproven[place.partition],
        )
        for place in places
    ]


def judged(
    place: Place,
    logged: Int64s,
    expected: Int64s,
    rows: Int64s,
    aside: Aside,
    surplus: Int64s,
    unreadable: Int64s,
    provable: Provable,
    unproven: int = 0,
) -> PartitionResult:
    """``surplus``: offsets of rows whose key has one already; ``unreadable``: should be set aside."""
    partition = place.partition
    letters, times = np.unique(aside.offsets_of(partition), return_counts=True)
    stray = np.setdiff1d(letters, logged, assume_unique=True)
    stray = stray[~provable.no_longer(place, stray, logged)]
    missing = np.union1d(np.setdiff1d(expected, rows), unreadable)
    unexpected = np.union1d(np.setdiff1d(rows, expected), stray)
    duplicated = np.concatenate([surplus, np.repeat(letters, times - 1)])
    dead, skipped = aside.dead.get(partition, NONE), aside.skipped.get(partition, NONE)
    return PartitionResult(
        **asdict(place),
        records=len(logged),
        expected=len(expected),
        rows=len(rows),
        dead_letters=int((dead >= place.start).sum()),
        skipped=int((skipped >= place.start).sum()),
        missing=len(missing),
        duplicated=len(duplicated),
        unexpected=len(unexpected),
        unproven=unproven,
        first_missing=first(missing),
        first_duplicated=first(duplicated),
        first_unexpected=first(unexpected),
    )


def _identities(rows: Rows, keys: Keys) -> list[Hashable]:
    places = zip(rows.partition.tolist(), rows.offset.tolist(), strict=True)
    return [keys.identity_of_row(key, at) for key, at in zip(rows.keys, places, strict=True)]


def _rely_on_rows_beyond_the_log(
    places: Sequence[Place],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    identities: list[Hashable],
    erased: Erased,
    provable: Provable,
) -> Counter[int]:
    """What the log has lost, the rows say: such a row is right, unless the log has a later change."""
    counts: Counter[int] = Counter()
    for place in places:
        mine = np.flatnonzero(rows.partition == place.partition)
        offsets = rows.offset[mine]
        for index in mine[provable.no_longer(place, offsets, logged(place.partition))].tolist():
            offset, key = int(rows.offset[index]), rows.keys[index]
            if key is None or erased.covers(place.partition, offset, key):
                continue
            change = Change(int(rows.timestamp_ms[index]), offset, False, key)
            changes.note(place.partition, identities[index], change)
            counts[place.partition] += 1
    return counts


def _rows_of_one_key_too_many(
    rows: Rows, identities: list[Hashable], expected: Mapping[int, Int64s]
) -> dict[int, Int64s]:
    is_expected = np.zeros(len(rows.offset), dtype=np.bool_)
    for partition, offsets in expected.items():
        is_expected |= (rows.partition == partition) & np.isin(rows.offset, offsets)
    seen: set[Hashable] = set()
    surplus: dict[int, list[int]] = {}
    # The expected row of a key comes first: the others are the ones too many.
    for index in np.argsort(~is_expected, kind="stable").tolist():
        if identities[index] in seen:
            surplus.setdefault(int(rows.partition[index]), []).append(int(rows.offset[index]))
        seen.add(identities[index])
    return {p: np.array(offsets, dtype=np.int64) for p, offsets in surplus.items()}
