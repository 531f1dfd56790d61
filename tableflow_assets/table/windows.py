"""Rows per time window, told by the files' metadata: no row is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Literal

from pyiceberg.table import Table

from tableflow_assets.table.create import PARTITION_FIELD

Window = Literal["hour", "day"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_in(table: Table) -> int:
    """All rows: those written, less those marked as deleted since."""
    snapshot = table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    totals = snapshot.summary.additional_properties
    return int(totals.get("total-records", 0)) - int(totals.get("total-position-deletes", 0))


def rows_added(table: Table, window: Window, snapshots: Iterable[int]) -> dict[datetime, int]:
    """Per window (its start), the rows that these snapshots added."""
    rows: Counter[datetime] = Counter()
    for snapshot_id in snapshots:
        snapshot = table.snapshot_by_id(snapshot_id)
        for manifest in snapshot.manifests(table.io) if snapshot else ():
            if manifest.added_snapshot_id == snapshot_id:
                for entry in manifest.fetch_manifest_entry(table.io):
                    # A manifest may have been merged with older ones: count only what is new.
                    if entry.snapshot_id == snapshot_id:
                        file = entry.data_file
                        rows[_start(window, file.partition[0])] += file.record_count
    return dict(rows)


def rows_in_all(table: Table, window: Window) -> dict[datetime, int]:
    """Per window (its start), all rows of the table."""
    partitions = table.inspect.partitions().to_pylist()
    rows: Counter[datetime] = Counter()
    for partition in partitions:
        rows[_start(window, partition["partition"][PARTITION_FIELD])] += partition["record_count"]
    return dict(rows)


def _start(window: Window, value: int | date | None) -> datetime:
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    step = timedelta(days=1) if window == "day" else timedelta(hours=1)
    return EPOCH + step * (value or 0)
