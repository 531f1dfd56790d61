"""One row a record: every record of the log is one row, one dead letter, or skipped."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from tableflow_assets.verify.dropped import Gone
from tableflow_assets.verify.provable import Provable
from tableflow_assets.verify.read_table import Aside
from tableflow_assets.verify.result import NONE, Int64s, PartitionResult, Place, first


def compare(
    place: Place,
    logged: Int64s,
    erased: Int64s,
    dropped: Gone,
    rows: Int64s,
    aside: Aside,
    provable: Provable,
) -> PartitionResult:
    """``logged``: offsets of the log's records.

    Those of ``erased`` among them must be nowhere, and so must those ``dropped`` by retention.
    """
    dead, skipped = (known.get(place.partition, NONE) for known in (aside.dead, aside.skipped))
    expected = np.setdiff1d(logged, np.union1d(erased, dropped.records), assume_unique=True)
    found, times = np.unique(np.concatenate([rows, dead, skipped]), return_counts=True)
    missing = np.setdiff1d(expected, found, assume_unique=True)
    duplicated = found[times > 1]
    surplus = np.union1d(np.setdiff1d(found, expected, assume_unique=True), dropped.rows)
    is_unproven = provable.no_longer(place, surplus, logged) & ~np.isin(surplus, dropped.rows)
    unexpected = surplus[~is_unproven]
    return PartitionResult(
        **asdict(place),
        records=len(logged),
        expected=len(expected),
        rows=_in_range(rows, place),
        dead_letters=_in_range(dead, place),
        skipped=_in_range(skipped, place),
        dropped=len(dropped.records),
        missing=len(missing),
        duplicated=int((times[times > 1] - 1).sum()),
        unexpected=len(unexpected),
        unproven=int(np.isin(rows, surplus[is_unproven]).sum()),
        first_missing=first(missing),
        first_duplicated=first(duplicated),
        first_unexpected=first(unexpected),
    )


def _in_range(offsets: Int64s, place: Place) -> int:
    return int((offsets >= place.start).sum())
