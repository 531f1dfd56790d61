"""One row per record: every record of the log is one row, one dead letter, or skipped."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from tableflow_assets.verify.dropped import PartitionDrops
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import SetAside
from tableflow_assets.verify.result import NONE, Int64s, PartitionResult, Span, first


def compare(
    span: Span,
    logged: Int64s,
    erased: Int64s,
    dropped: PartitionDrops,
    rows: Int64s,
    set_aside: SetAside,
    provable: Provable,
) -> PartitionResult:
    """``logged``: offsets of the log's records.

    Those among them that were ``erased``, or ``dropped`` by retention, must be nowhere.
    """
    dead, skipped = (
        offsets.get(span.partition, NONE) for offsets in (set_aside.dead, set_aside.skipped)
    )
    expected = np.setdiff1d(logged, np.union1d(erased, dropped.records), assume_unique=True)
    present, times = np.unique(np.concatenate([rows, dead, skipped]), return_counts=True)
    missing = np.setdiff1d(expected, present, assume_unique=True)
    duplicated = present[times > 1]
    surplus = np.union1d(np.setdiff1d(present, expected, assume_unique=True), dropped.rows)
    is_unproven = provable.no_longer(span, surplus, logged) & ~np.isin(surplus, dropped.rows)
    unexpected = surplus[~is_unproven]
    return PartitionResult(
        **asdict(span),
        records=len(logged),
        expected=len(expected),
        rows=_in_range(rows, span),
        dead_letters=_in_range(dead, span),
        skipped=_in_range(skipped, span),
        dropped=len(dropped.records),
        missing=len(missing),
        duplicated=int((times[times > 1] - 1).sum()),
        unexpected=len(unexpected),
        unproven=int(np.isin(rows, surplus[is_unproven]).sum()),
        first_missing=first(missing),
        first_duplicated=first(duplicated),
        first_unexpected=first(unexpected),
    )


def _in_range(offsets: Int64s, span: Span) -> int:
    return int((offsets >= span.start).sum())
