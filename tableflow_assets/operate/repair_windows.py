"""Which windows have to be read again for the rows of files that are gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyiceberg.manifest import DataFile, DataFileContent
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform

from tableflow_assets.base.errors import TableDamaged
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.layout_fields import TIMESTAMP
from tableflow_assets.table.lost_files import LostFile, all_files
from tableflow_assets.table.windows import Window, window_of

_WINDOWS: dict[type, Window] = {HourTransform: "hour", DayTransform: "day"}
_LENGTHS: dict[Window, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


@dataclass(frozen=True, order=True)
class Span:
    """Windows that follow each other: [start, end)."""

    start: datetime
    end: datetime

    def overlaps(self, other: Span) -> bool:
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} (UTC)"


def spans_to_read(
    table: Table, topic: Topic, lost: Sequence[LostFile]
) -> list[tuple[Span, list[LostFile]]]:
    """The windows to read, with the lost files whose rows come back with them.

    Where other files are of a longer window, which has this one in it, that is read instead: files are
    replaced as a whole.
    """
    head = table.current_snapshot()
    others = [
        span
        for file, spec_id in (all_files(table, head) if head and lost else ())
        if file.content == DataFileContent.DATA and (span := _span(table, file, spec_id))
    ]
    wanted = [(_known_span(table, topic, one), one) for one in lost]
    found = []
    for whole in _joined([*others, *(span for span, _ in wanted)]):
        if inside := [one for span, one in wanted if span.overlaps(whole)]:
            found.append((whole, inside))
    return found


def lost_offsets(table: Table, lost: LostFile, earliest: Mapping[int, int]) -> str:
    """In words: those that were in the file, and that the log no longer holds; else nothing."""
    partitions = _bounds(table, lost.file, "_kafka.partition")
    offsets = _bounds(table, lost.file, "_kafka.offset")
    gone = []
    for partition, begin in sorted(earliest.items()):
        if partitions and not partitions[0] <= partition <= partitions[1]:
            continue
        first, last = offsets or (0, begin)
        if first < begin:
            is_one = partitions is not None and partitions[0] == partitions[1]
            some = "offsets" if is_one and offsets else "some of the offsets"
            gone.append(f"{some} {first} to {min(last, begin - 1)} of partition {partition}")
    return ", ".join(gone)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Those that overlap, as one."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and joined[-1].overlaps(span):
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _known_span(table: Table, topic: Topic, lost: LostFile) -> Span:
    span = _span(table, lost.file, lost.spec_id)
    if span is None:
        raise TableDamaged(
            f"{lost}, and the table is laid out in another way than by windows: none can be replaced"
            " alone.",
            f"Build the table anew from the log: tableflow rebuild {topic.name}",
        )
    return span


def _span(table: Table, file: DataFile, spec_id: int) -> Span | None:
    """The hour or day that the file's partition is of. What its statistics say does not count: Iceberg
    replaces only what partitions tell apart."""
    spec, timestamp = (
        table.specs()[spec_id],
        table.schema().find_field(".".join(TIMESTAMP)).field_id,
    )
    for field in spec.fields:
        if field.source_id != timestamp:
            continue
        window: Window | None = _WINDOWS.get(type(field.transform))
        if window and (start := window_of(table, window, file, spec)):
            return Span(start, start + _LENGTHS[window])
    return None


def _bounds(table: Table, file: DataFile, column: str) -> tuple[int, int] | None:
    """The least and the greatest value of a column of whole numbers, if the metadata has them."""
    at = table.schema().find_field(column).field_id
    bounds = [(one or {}).get(at) for one in (file.lower_bounds, file.upper_bounds)]
    if bounds[0] is None or bounds[1] is None:
        return None
    return _whole(bounds[0]), _whole(bounds[1])


def _whole(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
