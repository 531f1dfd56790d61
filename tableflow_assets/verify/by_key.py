"""One row per key: the table holds the last change of every key, unless that was a deletion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict

import numpy as np

from tableflow_assets.verify.changes import Change, LastChanges
from tableflow_assets.verify.keys import Erased, Keys
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import Rows, SetAside
from tableflow_assets.verify.result import NONE, Int64s, PartitionResult, Span, first

Logged = Callable[[int], Int64s]  # the offsets of a partition that hold a record


def compare(
    spans: Sequence[Span],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    earlier: Rows,
    set_aside: SetAside,
    keys: Keys,
    erased: Erased,
    provable: Provable,
) -> list[PartitionResult]:
    """``earlier``: rows of logs before a rebase, each right unless this log has a change of its key."""
    identities = _identities(rows, keys)
    unproven = _trust_rows_beyond_the_log(
        spans, logged, changes, rows, identities, erased, provable
    )
    expected = changes.expected_rows()
    surplus = _surplus_rows(rows, identities, expected)
    superseded = _superseded(earlier, changes, keys)
    return [
        partition_result(
            span,
            logged(span.partition),
            expected.get(span.partition, NONE),
            rows.offsets_of(span.partition),
            set_aside,
            surplus.get(span.partition, NONE),
            np.array(changes.unreadable.get(span.partition, ()), dtype=np.int64),
            provable,
            unproven[span.partition],
            superseded.get(span.partition, NONE),
        )
        for span in spans
    ]


def _superseded(earlier: Rows, changes: LastChanges, keys: Keys) -> dict[int, Int64s]:
    """By partition, rows of earlier logs that a change in this one, or another such row, replaces."""
    replaced = {identity for by_key in changes.by_partition.values() for identity in by_key}
    offsets: dict[int, list[int]] = {}
    for index, identity in enumerate(_identities(earlier, keys)):
        if identity in replaced:
            place = int(earlier.partition[index]), int(earlier.offset[index])
            offsets.setdefault(place[0], []).append(place[1])
        replaced.add(identity)
    return {p: np.array(values, dtype=np.int64) for p, values in offsets.items()}


def partition_result(
    span: Span,
    logged: Int64s,
    expected: Int64s,
    rows: Int64s,
    set_aside: SetAside,
    surplus: Int64s,
    unreadable: Int64s,
    provable: Provable,
    unproven: int = 0,
    superseded: Int64s = NONE,
) -> PartitionResult:
    """``surplus``: offsets of further rows of a key; ``unreadable``: those missing from dead letters.

    ``superseded``: those of rows of earlier logs, which say nothing about offsets of this one.
    """
    partition = span.partition
    letters, times = np.unique(set_aside.offsets_of(partition), return_counts=True)
    stray = np.setdiff1d(letters, logged, assume_unique=True)
    stray = stray[~provable.no_longer(span, stray, logged)]
    missing = np.union1d(np.setdiff1d(expected, rows), unreadable)
    unexpected = np.union1d(np.setdiff1d(rows, expected), stray)
    duplicated = np.concatenate([surplus, np.repeat(letters, times - 1)])
    dead, skipped = set_aside.dead.get(partition, NONE), set_aside.skipped.get(partition, NONE)
    return PartitionResult(
        **asdict(span),
        records=len(logged),
        expected=len(expected),
        rows=len(rows),
        dead_letters=int((dead >= span.start).sum()),
        skipped=int((skipped >= span.start).sum()),
        missing=len(missing),
        duplicated=len(duplicated),
        unexpected=len(unexpected) + len(superseded),
        unproven=unproven,
        first_missing=first(missing),
        first_duplicated=first(duplicated),
        first_unexpected=first(np.concatenate([unexpected, superseded])),
    )


def _identities(rows: Rows, keys: Keys) -> list[Hashable]:
    places = zip(rows.partition.tolist(), rows.offset.tolist(), strict=True)
    return [keys.identity_of_row(key, at) for key, at in zip(rows.keys, places, strict=True)]


def _trust_rows_beyond_the_log(
    spans: Sequence[Span],
    logged: Logged,
    changes: LastChanges,
    rows: Rows,
    identities: list[Hashable],
    erased: Erased,
    provable: Provable,
) -> Counter[int]:
    """A row whose record the log has lost is right, unless the log has a later change of its key."""
    counts: Counter[int] = Counter()
    for span in spans:
        indexes = np.flatnonzero(rows.partition == span.partition)
        offsets = rows.offset[indexes]
        for index in indexes[provable.no_longer(span, offsets, logged(span.partition))].tolist():
            offset, key = int(rows.offset[index]), rows.keys[index]
            if key is None or erased.covers(span.partition, offset, key):
                continue
            change = Change(int(rows.timestamp_ms[index]), offset, False, key)
            changes.note(span.partition, identities[index], change)
            counts[span.partition] += 1
    return counts


def _surplus_rows(
    rows: Rows, identities: list[Hashable], expected: Mapping[int, Int64s]
) -> dict[int, Int64s]:
    is_expected = np.zeros(len(rows.offset), dtype=np.bool_)
    for partition, offsets in expected.items():
        is_expected |= (rows.partition == partition) & np.isin(rows.offset, offsets)
    present: set[Hashable] = set()
    surplus: dict[int, list[int]] = {}
    # The expected row of a key comes first: any others are surplus.
    for index in np.argsort(~is_expected, kind="stable").tolist():
        if identities[index] in present:
            surplus.setdefault(int(rows.partition[index]), []).append(int(rows.offset[index]))
        present.add(identities[index])
    return {p: np.array(offsets, dtype=np.int64) for p, offsets in surplus.items()}
