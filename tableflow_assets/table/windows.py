"""Rows per time window, from the files' metadata; files are read only where it does not say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestContent
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform
from pyiceberg.types import TimestamptzType

from tableflow_assets.source.timestamps import moment_of
from tableflow_assets.table.layout_fields import time_column
from tableflow_assets.table.snapshots import rows_in as rows_in_snapshot

Window = Literal["hour", "day"]
# At most so many files that span several windows are read: small reads, but one request each.
FILES_TO_READ = 64


def rows_in(table: Table) -> int:
    """All rows: those written, less those marked as deleted since."""
    snapshot = table.current_snapshot()
    return rows_in_snapshot(snapshot) if snapshot else 0


def rows_added(table: Table, window: Window, snapshots: Iterable[int]) -> dict[datetime, int]:
    """Per window (its start), the rows that these snapshots added."""
    rows: Counter[datetime] = Counter()
    for snapshot_id in snapshots:
        for file, spec in _data_files(table, snapshot_id, added_only=True):
            rows.update(_rows_of(table, window, file, spec))
    return dict(rows)


def rows_in_all(table: Table, window: Window) -> dict[datetime, int] | None:
    """Per window (its start), all rows of the table.

    None if the table is not laid out by windows and too many files would have to be read.
    """
    snapshot = table.current_snapshot()
    rows: Counter[datetime] = Counter()
    to_read = []
    for file, spec in _data_files(table, snapshot.snapshot_id) if snapshot else ():
        if (start := window_of(table, window, file, spec)) is not None:
            rows[start] += file.record_count
        else:
            to_read.append(file)
    if len(to_read) > FILES_TO_READ:
        return None
    for file in to_read:
        rows.update(_read_windows(table, window, file))
    return dict(rows)


def window_of(table: Table, window: Window, file: DataFile, spec: PartitionSpec) -> datetime | None:
    """The window (its start) that all rows of the file fall in; None where metadata does not say.

    ``spec``: the partitioning that the file was written in, which may no longer be the table's.
    """
    source = table.schema().find_field(".".join(time_column(table)))
    for position, field in enumerate(spec.fields):
        if field.source_id == source.field_id and _is_within_window(field.transform, window):
            value = file.partition[position]
            return window_start(window, partition_moment(field.transform, value))
    lower, upper = (
        bound_moment(bounds, source.field_id) for bounds in (file.lower_bounds, file.upper_bounds)
    )
    if lower is None or upper is None or (file.null_value_counts or {}).get(source.field_id):
        return None
    first, last = window_start(window, lower), window_start(window, upper)
    return first if first == last else None


def _data_files(
    table: Table, snapshot_id: int, *, added_only: bool = False
) -> Iterator[tuple[DataFile, PartitionSpec]]:
    """Each with the partitioning it was written in."""
    specs, snapshot = table.specs(), table.snapshot_by_id(snapshot_id)
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        is_other = added_only and manifest.added_snapshot_id != snapshot_id
        if is_other or manifest.content != ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io):
            # A manifest may have been merged with older ones: those files are not new.
            if not added_only or entry.snapshot_id == snapshot_id:
                yield entry.data_file, specs[manifest.partition_spec_id]


def _rows_of(
    table: Table, window: Window, file: DataFile, spec: PartitionSpec
) -> dict[datetime, int]:
    start = window_of(table, window, file, spec)
    if start is not None:
        return {start: file.record_count}
    return _read_windows(table, window, file)


def _read_windows(table: Table, window: Window, file: DataFile) -> dict[datetime, int]:
    """Read nothing of the rows but their timestamps."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    name, *inside = path = time_column(table)
    with table.io.new_input(file.file_path).open() as stream:
        moments = pq.ParquetFile(stream).read(columns=[".".join(path)])[name].combine_chunks()
    if inside:
        moments = pc.struct_field(moments, inside)
    starts = pc.floor_temporal(moments.cast(pa.timestamp("us", "UTC")), unit=window)
    # As numbers: a table may have moments that Python does not.
    counts = pc.value_counts(starts.cast(pa.int64()))
    rows: Counter[datetime] = Counter()
    for microseconds, count in zip(*(part.to_pylist() for part in counts.flatten()), strict=True):
        rows[moment_of(microseconds or 0)] += count
    return rows


def _is_within_window(transform: Any, window: Window) -> bool:
    """Whether a partition by this transform lies within one window."""
    return isinstance(transform, HourTransform) or (
        isinstance(transform, DayTransform) and window == "day"
    )


def bound_moment(bounds: dict[int, bytes] | None, timestamp: int) -> datetime | None:
    """The smallest or largest timestamp of a file, from its metadata; by the field's id."""
    bound = (bounds or {}).get(timestamp)
    if bound is None:
        return None
    # These are microseconds, whatever `from_bytes` declares.
    return moment_of(int(from_bytes(TimestamptzType(), bound)))


def partition_moment(transform: Any, value: int | date | None) -> datetime:
    """The start of a partition by hours or days; pyiceberg may turn days into dates."""
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    unit = timedelta(hours=1) if isinstance(transform, HourTransform) else timedelta(days=1)
    return moment_of((value or 0) * (unit // timedelta(microseconds=1)))


def window_start(window: Window, moment: datetime) -> datetime:
    start = moment.replace(minute=0, second=0, microsecond=0)
    return start if window == "hour" else start.replace(hour=0)
