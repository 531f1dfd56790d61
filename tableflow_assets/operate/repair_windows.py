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
from tableflow_assets.table.epochs import COLUMN as EPOCH
from tableflow_assets.table.layout_fields import TIMESTAMP
from tableflow_assets.table.lost_files import LostFile, all_files
from tableflow_assets.table.windows import Window, window_of

_WINDOWS: dict[type, Window] = {HourTransform: "hour", DayTransform: "day"}
_LENGTHS: dict[Window, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


@dataclass(frozen=True, order=True)
class Span:
    """Consecutive windows: [start, end)."""

    start: datetime
    end: datetime

    def overlaps(self, span: Span) -> bool:
        return self.start < span.end and span.start < self.end

    def __str__(self) -> str:
        return f"{self.start:%Y-%m-%d %H:%M} to {self.end:%Y-%m-%d %H:%M} (UTC)"


def spans_to_read(
    table: Table, topic: Topic, damaged: Sequence[LostFile]
) -> list[tuple[Span, list[LostFile]]]:
    """The windows to read, with the lost files whose rows come back with them.

    Where another file covers a longer window around this one, that window is read instead: files are
    replaced as a whole.
    """
    head = table.current_snapshot()
    all_spans = [
        span
        for file, spec_id in (all_files(table, head) if head and damaged else ())
        if file.content == DataFileContent.DATA and (span := _span(table, file, spec_id))
    ]
    lost_spans = [(_required_span(table, topic, file), file) for file in damaged]
    reads = []
    for joined in _joined([*all_spans, *(span for span, _ in lost_spans)]):
        if files_inside := [file for span, file in lost_spans if span.overlaps(joined)]:
            reads.append((joined, files_inside))
    return reads


def lost_offsets(
    table: Table, damaged: LostFile, earliest: Mapping[int, int], epoch: int = 0
) -> str:
    """In words: the offsets in the file that the log no longer holds; empty if there are none.

    ``epoch``: which of the logs that the table has read is the present one.
    """
    if epoch and not _is_of_epoch(table, damaged.file, epoch):
        return "records from before the rebase of the topic"
    partitions = _bounds(table, damaged.file, "_kafka.partition")
    offsets = _bounds(table, damaged.file, "_kafka.offset")
    parts = []
    for partition, begin in sorted(earliest.items()):
        if partitions and not partitions[0] <= partition <= partitions[1]:
            continue
        first, last = offsets or (0, begin)
        if first < begin:
            is_single = partitions is not None and partitions[0] == partitions[1]
            label = "offsets" if is_single and offsets else "some of the offsets"
            parts.append(f"{label} {first} to {min(last, begin - 1)} of partition {partition}")
    return ", ".join(parts)


def _is_of_epoch(table: Table, file: DataFile, epoch: int) -> bool:
    """Whether all rows are, as far as the metadata says."""
    column = table.schema().find_field(EPOCH).field_id
    has_none_of_the_first = (file.null_value_counts or {}).get(column) == 0
    return has_none_of_the_first and _bounds(table, file, EPOCH) == (epoch, epoch)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """With overlapping spans merged into one."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and joined[-1].overlaps(span):
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return joined


def _required_span(table: Table, topic: Topic, damaged: LostFile) -> Span:
    span = _span(table, damaged.file, damaged.spec_id)
    if span is None:
        raise TableDamaged(
            f"{damaged}, and the table is not laid out by windows: none can be replaced on its own.",
            f"Rebuild the table from the log: tableflow rebuild {topic.name}",
        )
    return span


def _span(table: Table, file: DataFile, spec_id: int) -> Span | None:
    """The hour or day of the file's partition. Its statistics do not count: Iceberg replaces rows only
    by partition."""
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
    """The smallest and largest value of an integer column, if the metadata has them."""
    at = table.schema().find_field(column).field_id
    bounds = [(side or {}).get(at) for side in (file.lower_bounds, file.upper_bounds)]
    if bounds[0] is None or bounds[1] is None:
        return None
    return _signed_int(bounds[0]), _signed_int(bounds[1])


def _signed_int(bound: bytes) -> int:
    return int.from_bytes(bound, "little", signed=True)
