"""Delta's statistics of a file, from Iceberg's."""

from __future__ import annotations

import json
import struct
import time
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.table.delta.stats import StatsWriter, loosened
from tableflow_assets_tests.table.delta.readers import field


def data_file(
    lower: dict[int, bytes] | None = None, upper: dict[int, bytes] | None = None, **counts: Any
) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path="s3://lake/t/data/f.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=3,
        file_size_in_bytes=1,
        lower_bounds=lower,
        upper_bounds=upper,
        **counts,
    )


def bounds_text(kind: IcebergType, lower: bytes, upper: bytes, **counts: Any) -> tuple[str, str]:
    """What stands for one column, word for word; empty where nothing does."""
    file = data_file({1: lower}, {1: upper}, **counts)
    text = StatsWriter(Schema(field(1, "c", kind))).of(file)
    least, most = text.removeprefix('{"numRecords":3,"minValues":{').split('},"maxValues":{')
    return least.removeprefix('"c":'), most.split("}")[0].removeprefix('"c":')


def bounds(kind: PrimitiveType, lower: Any, upper: Any, **counts: Any) -> tuple[str, str]:
    return bounds_text(kind, to_bytes(kind, lower), to_bytes(kind, upper), **counts)


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "said"),
    [
        (IntegerType(), -5, 7, ("-5", "7")),
        (LongType(), -(2**63), 2**63 - 1, ("-9223372036854775808", "9223372036854775807")),
        (StringType(), 'a"\\', "é🚂", ('"a\\"\\\\"', '"\\u00e9\\ud83d\\ude82"')),
        (DateType(), date(1, 1, 1), date(2024, 2, 29), ('"0001-01-01"', '"2024-02-29"')),
        (DecimalType(9, 2), Decimal("-0.05"), Decimal("1.50"), ("-0.05", "1.50")),
        (DecimalType(20, 0), Decimal(-7), Decimal(2**64 - 1), ("-7", "18446744073709551615")),
        (
            DecimalType(38, 10),
            Decimal("-1234567890123456789012345678.0123456789"),
            Decimal("0.0000000001"),
            ("-1234567890123456789012345678.0123456789", "0.0000000001"),
        ),
        (
            TimestamptzType(),
            datetime(2024, 1, 1, 0, 0, 0, 123456),
            datetime(2024, 1, 1, 0, 0, 0, 123456),
            ('"2024-01-01T00:00:00.123Z"', '"2024-01-01T00:00:00.124Z"'),
        ),
        (
            TimestampType(),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            datetime(1969, 12, 31, 23, 59, 59, 999000),
            ('"1969-12-31T23:59:59.999"', '"1969-12-31T23:59:59.999"'),
        ),
    ],
    ids=str,
)
def test_bounds(kind: PrimitiveType, lower: Any, upper: Any, said: tuple[str, str]) -> None:
    assert bounds(kind, lower, upper) == said


def test_a_file_may_be_older_than_the_widening_of_its_column() -> None:
    narrow = (struct.pack("<i", -5), struct.pack("<i", 2**31 - 1))
    assert bounds_text(LongType(), *narrow) == ("-5", "2147483647")
    narrow = (struct.pack("<f", 0.1), struct.pack("<f", 1.5))
    text = bounds_text(DoubleType(), *narrow, nan_value_counts={1: 0})
    assert text == ("0.10000000149011612", "1.5")
    assert bounds_text(DecimalType(38, 2), b"\xff", b"\x7f") == ("-0.01", "1.27")


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()])
def test_bounds_of_floats_only_where_there_is_no_nan(kind: PrimitiveType) -> None:
    """Delta orders NaN above all numbers; Iceberg's bounds are those of the numbers."""
    assert bounds(kind, -1.5, 2.5, nan_value_counts={1: 0}) == ("-1.5", "2.5")
    assert bounds(kind, -1.5, 2.5, nan_value_counts={1: 1}) == ("", "")
    assert bounds(kind, -1.5, 2.5) == ("", "")


def test_both_zeros_are_within_the_bounds_and_infinities_have_no_words() -> None:
    no_nan = {"nan_value_counts": {1: 0}}
    assert bounds(DoubleType(), 0.0, -0.0, **no_nan) == ("-0.0", "0.0")
    assert bounds(DoubleType(), float("-inf"), float("inf"), **no_nan) == ("", "")


def test_a_bound_that_cannot_be_said_is_left_out() -> None:
    """Years beyond 9999, also by rounding up; half a character; a bound that Iceberg has not got."""
    assert bounds_text(DateType(), *(struct.pack("<i", 10**7),) * 2) == ("", "")
    latest = datetime(9999, 12, 31, 23, 59, 59, 999999)
    assert bounds(TimestampType(), latest, latest) == ('"9999-12-31T23:59:59.999"', "")
    assert bounds_text(TimestamptzType(), *(struct.pack("<q", -(2**63)),) * 2) == ("", "")
    assert bounds_text(StringType(), b"a", b"\xf0\x9f") == ('"a"', "")
    long_text = StatsWriter(Schema(field(1, "c", StringType()))).of(data_file({1: b"a"}))
    assert json.loads(long_text)["maxValues"] == {}


def test_columns_by_their_names_in_the_file_and_nothing_of_lists_and_maps() -> None:
    schema = Schema(
        field(
            1,
            "st ruct",
            StructType(
                field(2, "1st", IntegerType()),
                field(3, "empty", StructType(field(4, "new", LongType()))),
                field(5, "list", ListType(6, IntegerType(), False)),
            ),
        ),
        field(7, "map", MapType(8, IntegerType(), 9, IntegerType(), False)),
        field(10, "flag", BooleanType()),
        field(11, "bytes", BinaryType()),
        field(12, "fixed", FixedType(4)),
    )
    numbers = {at: struct.pack("<i", at) for at in (2, 6, 8, 9)} | {10: b"\x01", 11: b"a", 12: b"b"}
    file = data_file(numbers, numbers, null_value_counts=dict.fromkeys((2, 6, 8, 9, 10, 11, 12), 1))
    assert json.loads(StatsWriter(schema).of(file)) == {
        "numRecords": 3,
        "minValues": {"st_x20ruct": {"_1st": 2}},
        "maxValues": {"st_x20ruct": {"_1st": 2}},
        "nullCount": {"st_x20ruct": {"_1st": 1}, "flag": 1, "bytes": 1, "fixed": 1},
        "tightBounds": True,
    }


def test_a_file_with_marks_has_wide_bounds() -> None:
    writer = StatsWriter(Schema(field(1, "c", DecimalType(38, 10))))
    digits = (1234567890123456789012345678_0123456789).to_bytes(16, "big")
    file = data_file({1: digits}, {1: digits})
    assert loosened(writer.of(file)) == writer.of(file, tight=False)
    assert json.loads(writer.of(file, tight=False))["tightBounds"] is False


def test_it_is_quick() -> None:
    """It runs for every file of every commit. Some 40 times slower than seen would fail."""
    kinds = (LongType(), StringType(), TimestamptzType(), DecimalType(9, 2))
    schema = Schema(*(field(at, f"c{at}", kinds[at % 4]) for at in range(100)))
    encoded = {at: b"\x01\x02\x03\x04" * (1 if at % 4 == 3 else 2) for at in range(100)}
    file = data_file(encoded, encoded, null_value_counts=dict.fromkeys(range(100), 0))
    writer = StatsWriter(schema)
    started = time.perf_counter()
    for _ in range(20):
        writer.of(file)
    assert (time.perf_counter() - started) / 20 / 100 < 0.0001
