"""Which part of a table a file belongs to: a time window or, with keys, a bucket of them.

By the file's own metadata, because a table may have files of several partitionings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform

from tableflow_assets.decode.column_names import KAFKA_COLUMN
from tableflow_assets.settings.layout_terms import in_sql
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.source.timestamps import EPOCH
from tableflow_assets.table.layout_fields import time_column
from tableflow_assets.table.windows import (
    bound_moment,
    partition_moment,
    window_start,
)

KEY_HASH = f"{KAFKA_COLUMN}.key_hash"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WHOLE = "all"


@dataclass(frozen=True)
class FileGroup:
    """A part of the table that can be rewritten on its own."""

    name: str  # a window as Dagster writes it, `bucket 3`, or `all`
    start: datetime | None = None  # if it is a window
    bucket: int | None = None


class Grouping(Protocol):
    """How the files of a table are told apart."""

    def of(self, file: DataFile, spec: int) -> FileGroup: ...
    def mergeable(self, file: DataFile, spec: int) -> object: ...
    def oldest_in(self, file: DataFile) -> datetime | None: ...


class OneGroup(Grouping):
    """For a table that is not laid out in any way, such as that of the dead letters."""

    def __init__(self, name: str) -> None:
        self.group = FileGroup(name)

    def of(self, file: DataFile, spec: int) -> FileGroup:
        return self.group

    def mergeable(self, file: DataFile, spec: int) -> object:
        return None

    def oldest_in(self, file: DataFile) -> datetime | None:
        return None


class FileGroups(Grouping):
    def __init__(self, table: Table, topic: ManagedTable) -> None:
        self._window = topic.window
        self.step = HOUR if topic.window == "hour" else DAY
        self._schema = table.schema()
        self._time = time_column(table)
        self._timestamp = self._schema.find_field(".".join(self._time)).field_id
        self._specs, self._current = table.specs(), table.spec().spec_id
        fields = table.spec().fields
        self.are_windows = any(map(self._step_of, fields))
        self.buckets = next(map(self._buckets_of, fields), 0)  # of a table with keys

    def of(self, file: DataFile, spec: int) -> FileGroup:
        if self.are_windows:
            return self.window_of(self._moment(file, spec))
        if self.buckets and spec == self._current:
            return FileGroup(f"bucket {file.partition[0]}", bucket=file.partition[0])
        return FileGroup(WHOLE)

    def window_of(self, moment: datetime) -> FileGroup:
        start = window_start(self._window, moment)
        shape = "%Y-%m-%d" if self.step == DAY else "%Y-%m-%d-%H:%M"
        return FileGroup(start.strftime(shape), start=start)

    def mergeable(self, file: DataFile, spec: int) -> tuple[object, ...] | None:
        """Files with the same value can be merged. None: of an older partitioning, to be split again."""
        if spec != self._current:
            return None
        return tuple(file.partition[at] for at in range(len(self._specs[spec].fields)))

    def oldest_in(self, file: DataFile) -> datetime | None:
        return bound_moment(file.lower_bounds, self._timestamp)

    def condition(self, groups: Iterable[FileGroup], spark_catalog: str) -> str | None:
        """SQL that matches every file of these groups and few others; None: it would match all."""
        group_list = list(groups)
        if self.are_windows:
            return " OR ".join(map(self._between, self._joined(group_list)))
        if not all(group.bucket is not None for group in group_list):
            return None
        bucket = f"`{spark_catalog}`.system.bucket({self.buckets}, {KEY_HASH})"
        return f"{bucket} IN ({', '.join(str(group.bucket) for group in group_list)})"

    # --- the time of a file -------------------------------------------------------------------

    def _moment(self, file: DataFile, spec: int) -> datetime:
        """A time in the file's window; in the newest one where it has rows of several."""
        coarse = None
        for at, field in enumerate(self._specs[spec].fields):
            if (step := self._step_of(field)) and file.partition[at] is not None:
                start = partition_moment(field.transform, file.partition[at])
                if step <= self.step:
                    return start
                coarse = start
        return bound_moment(file.upper_bounds, self._timestamp) or coarse or EPOCH

    def _step_of(self, field: PartitionField) -> timedelta | None:
        if field.source_id != self._timestamp:
            return None
        kinds = {DayTransform: DAY, HourTransform: HOUR}
        return kinds.get(type(field.transform))

    def _buckets_of(self, field: PartitionField) -> int:
        is_of_key = self._schema.find_column_name(field.source_id) == KEY_HASH
        transform = field.transform
        return transform.num_buckets if is_of_key and isinstance(transform, BucketTransform) else 0

    def _joined(self, groups: Iterable[FileGroup]) -> list[tuple[datetime, datetime]]:
        ranges: list[tuple[datetime, datetime]] = []
        for start in sorted(group.start for group in groups if group.start is not None):
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], start + self.step)
            else:
                ranges.append((start, start + self.step))
        return ranges

    def _between(self, times: tuple[datetime, datetime]) -> str:
        start, end = (f"TIMESTAMP '{moment:%Y-%m-%dT%H:%M:%SZ}'" for moment in times)
        time = in_sql(self._time)
        return f"({time} >= {start} AND {time} < {end})"
