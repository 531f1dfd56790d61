"""What a table needs, told by counts of its files."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, IntegerType, NestedField, StructType, TimestamptzType

from tableflow_assets.operate.maintenance.content import Content, Counts, GroupContent
from tableflow_assets.operate.maintenance.file_groups import FileGroup, FileGroups
from tableflow_assets.operate.maintenance.health import Window, windows_of
from tableflow_assets.settings.settings import Topic

TIMESTAMP, KEY_HASH, COUNTRY = 3, 4, 1
SCHEMA = Schema(
    NestedField(COUNTRY, "country", IntegerType()),
    NestedField(
        2,
        "_kafka",
        StructType(
            NestedField(TIMESTAMP, "timestamp", TimestamptzType()),
            NestedField(KEY_HASH, "key_hash", BinaryType()),
        ),
    ),
)
DAY_ONE = datetime(2024, 1, 1, tzinfo=UTC)
MB = 2**20


def spec(number: int, *fields: tuple[int, Any]) -> PartitionSpec:
    parts = [
        PartitionField(source_id=source, field_id=1000 + at, transform=transform, name=f"f{at}")
        for at, (source, transform) in enumerate(fields)
    ]
    return PartitionSpec(*parts, spec_id=number)


def groups(*specs: PartitionSpec, **options: Any) -> FileGroups:
    """Of a table whose newest partitioning is the last one."""
    table = SimpleNamespace(
        schema=lambda: SCHEMA,
        specs=lambda: {spec.spec_id: spec for spec in specs},
        spec=lambda: specs[-1],
        properties={},
    )
    return FileGroups(cast(Table, table), Topic(name="t", **options))


def file(*partition: Any, newest: datetime | None = None) -> DataFile:
    bounds = {}
    if newest:
        micros = int(newest.timestamp()) * 1_000_000
        bounds = {TIMESTAMP: micros.to_bytes(8, "little", signed=True)}
    data_file = SimpleNamespace(
        partition=Record(*partition), upper_bounds=bounds, lower_bounds=bounds
    )
    return cast(DataFile, data_file)


BY_DAY = spec(0, (TIMESTAMP, DayTransform()))
BY_HOUR = spec(1, (COUNTRY, IdentityTransform()), (TIMESTAMP, HourTransform()))
BY_KEY = spec(2, (KEY_HASH, BucketTransform(4)))
BY_COUNTRY = spec(3, (COUNTRY, IdentityTransform()))


def test_a_file_is_of_the_window_that_its_own_partitioning_says() -> None:
    daily = groups(BY_HOUR, BY_DAY)
    assert daily.of(file(date(2024, 1, 2)), 0).name == "2024-01-02"
    hours = (datetime(2024, 1, 2, 7, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days * 24 + 7
    assert daily.of(file(49, hours), 1).name == "2024-01-02"
    hourly = groups(BY_DAY, BY_HOUR, window="hour")
    assert hourly.of(file(49, hours), 1).name == "2024-01-02-07:00"
    # A file of a whole day: by its newest row where that is known.
    seven = datetime(2024, 1, 2, 7, 30, tzinfo=UTC)
    assert hourly.of(file(date(2024, 1, 2), newest=seven), 0).name == "2024-01-02-07:00"
    assert hourly.of(file(date(2024, 1, 2)), 0).name == "2024-01-02-00:00"


def test_without_windows_the_table_is_one_part_and_with_keys_one_for_each_bucket() -> None:
    assert groups(BY_COUNTRY).of(file(49), 3) == FileGroup("all")
    keyed = groups(BY_DAY, BY_KEY, mode="upsert")
    assert keyed.of(file(3), 2) == FileGroup("bucket 3", bucket=3)
    assert keyed.of(file(date(2024, 1, 2)), 0) == FileGroup("all")


def test_conditions_find_the_files_of_their_windows() -> None:
    days = groups(BY_DAY)
    day_groups = [days.window_of(DAY_ONE + timedelta(days=day)) for day in (0, 1, 5)]
    assert days.condition(day_groups, "lake") == (
        "(`_kafka`.`timestamp` >= TIMESTAMP '2024-01-01T00:00:00Z'"
        " AND `_kafka`.`timestamp` < TIMESTAMP '2024-01-03T00:00:00Z')"
        " OR (`_kafka`.`timestamp` >= TIMESTAMP '2024-01-06T00:00:00Z'"
        " AND `_kafka`.`timestamp` < TIMESTAMP '2024-01-07T00:00:00Z')"
    )
    keyed = groups(BY_KEY, mode="upsert")
    buckets = [FileGroup("bucket 0", bucket=0), FileGroup("bucket 3", bucket=3)]
    condition = "`lake`.system.bucket(4, _kafka.key_hash) IN (0, 3)"
    assert keyed.condition(buckets, "lake") == condition
    assert groups(BY_COUNTRY).condition([FileGroup("all")], "lake") is None


# --- what is needed ---------------------------------------------------------------------------


def windows(now: datetime, *parts: GroupContent, **options: Any) -> dict[str, Window]:
    content = Content(groups={part.group: part for part in parts})
    topic = Topic(name="t", target_file_size="100MB", **options)
    return {window.name: window for window in windows_of(content, topic, groups(BY_DAY), now)}


def part(day: int, *mergeable: Counts) -> GroupContent:
    group = groups(BY_DAY).window_of(DAY_ONE + timedelta(days=day))
    return GroupContent(group, dict(enumerate(mergeable)))


def small(count: int, size: int = MB) -> Counts:
    return Counts(files=count, small_files=count, small_bytes=count * size, rows=100)


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ([small(1)], ""),
        ([small(2)], "2 small files would be 1"),
        ([small(4, 5 * MB)], ""),  # not as few bytes as that
        ([small(5, 5 * MB)], "5 small files would be 1"),
        ([small(6, 70 * MB)], "6 small files would be 5"),
        ([small(1), small(1)], ""),  # of two partitions: they cannot be merged with one another
        ([small(5), small(1)], "5 small files would be 1"),
        ([Counts(files=1, rows=100, dead_rows=29, delete_files=1)], ""),
        ([Counts(files=1, rows=100, dead_rows=30)], "30 of 100 rows are deleted"),
        ([Counts(files=1, rows=1000, dead_rows=1, delete_files=10)], ""),
        ([Counts(files=1, rows=1000, dead_rows=1, delete_files=11)], "11 delete files"),
    ],
)
def test_when_a_window_needs_to_be_compacted(groups: list[Counts], why: str) -> None:
    now = DAY_ONE + timedelta(days=9)
    window = windows(now, part(0, *groups), part(5))["2024-01-01"]
    assert window.why == why
    assert window.remedy == ("rewrite" if "rows are deleted" in why else "pack" if why else "")


def test_windows_being_written_are_left_alone_until_they_have_many_small_files() -> None:
    now = DAY_ONE + timedelta(days=2, hours=7)
    by_name = windows(now, part(1, small(9)), part(2, small(9)), part(3, small(9)))
    # That of now, and the newest that has rows: here one of the future.
    assert [(w.name, w.is_newest, bool(w.remedy)) for w in by_name.values()] == [
        ("2024-01-02", False, True),
        ("2024-01-03", True, False),
        ("2024-01-04", True, False),
    ]
    many = windows(now, part(2, small(10)))["2024-01-03"]
    assert many.why == "10 small files would be 1"
