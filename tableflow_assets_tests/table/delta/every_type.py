"""A table with every type, under names that need quoting, and questions about each of its columns."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from pyiceberg.schema import Schema
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
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets_tests.table.delta.readers import field

NAN, MAX_TEXT = float("nan"), "\U0010ffff" * 20


class Column(NamedTuple):
    name: str
    type: IcebergType
    sql: dict[str, str]  # the type's name in each reader's SQL
    values: tuple[Any, ...]  # one a row


def sql(name: str, **overrides: str) -> dict[str, str]:
    return dict.fromkeys(("delta-rs", "DuckDB", "Spark"), name) | overrides


def utc(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)  # type: ignore[misc,arg-type]


def single(value: float) -> float:
    """The nearest one of 32 bits."""
    nearest: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return nearest


# In the order of the values two rows make a file: bounds that are wrong by a little lose a row.
COLUMNS = (
    Column("a b", BooleanType(), sql("boolean"), (False, True, None, None, True, True)),
    Column("1st", IntegerType(), sql("int"), (-(2**31), -1, 0, None, 5, 2**31 - 1)),
    Column(
        "größe 🚂",
        LongType(),
        sql("bigint"),
        (-(2**63), -(2**53) - 1, None, None, 2**53 + 1, 2**63 - 1),
    ),
    Column("select", FloatType(), sql("real"), (single(-0.1), -0.0, single(0.1), 3.0, None, NAN)),
    Column("x,y;z{}()=", DoubleType(), sql("double"), (float("-inf"), -0.0, 0.0, 0.1, 1e300, NAN)),
    Column(
        "a-b%20c",
        StringType(),
        sql("varchar", Spark="string"),
        ("", "a" * 40, "é" * 16 + "z", "日本語🚂" * 8, None, MAX_TEXT),
    ),
    Column("²", BinaryType(), {}, (b"", b"\x00", None, None, b"\xff" * 40, b"\xff")),
    Column("fixed", FixedType(4), {}, (b"\x00" * 4, b"abcd", None, None, b"\xff" * 4, b"zzzz")),
    Column(
        "day",
        DateType(),
        sql("date"),
        (date(1, 1, 1), date(1582, 10, 10), None, None, date(1970, 1, 1), date(9999, 12, 31)),
    ),
    Column(
        "moment",
        TimestamptzType(),
        sql("timestamp", DuckDB="timestamptz"),
        (
            utc(1900, 1, 1, 0, 0, 0, 1),
            utc(1969, 12, 31, 23, 59, 59, 999999),
            None,
            utc(2024, 2, 29, 12, 0, 0, 999),
            utc(2024, 2, 29, 12, 0, 0, 1000),
            utc(2024, 2, 29, 12, 0, 0, 1001),
        ),
    ),
    Column(
        "local",
        TimestampType(),
        sql("timestamp", Spark="timestamp_ntz"),
        (
            datetime(1900, 1, 1, 0, 0, 0, 1),
            datetime(1969, 12, 31, 23, 59, 59, 999999),
            None,
            datetime(2024, 2, 29, 12, 0, 0, 999),
            datetime(2024, 2, 29, 12, 0, 0, 1000),
            datetime(2024, 2, 29, 12, 0, 0, 1001),
        ),
    ),
    *(
        Column(
            f"decimal_{digits}",
            DecimalType(digits, scale),
            sql(f"decimal({digits},{scale})"),
            tuple(
                None if value is None else Decimal(f"{value}e-{scale}")
                for value in (1 - 10**digits, -1, None, 0, 1, 10**digits - 1)
            ),
        )
        for digits, scale in ((9, 2), (18, 4), (20, 0), (38, 10))
    ),
)
SCHEMA = Schema(
    field(1, "id", LongType()),
    *(field(10 + at, column.name, column.type) for at, column in enumerate(COLUMNS)),
    field(
        100,
        "in side",
        StructType(
            *(field(110 + at, column.name, column.type) for at, column in enumerate(COLUMNS))
        ),
    ),
    field(
        200,
        "list s",
        ListType(201, StructType(field(202, "x y", ListType(203, DateType(), False))), False),
    ),
    field(
        210,
        "map s",
        MapType(211, StringType(), 212, StructType(field(213, "1", TimestampType())), False),
    ),
)


def row(at: int) -> dict[str, Any]:
    values = {column.name: column.values[at] for column in COLUMNS}
    lists = [{"x y": [date(2024, 1, 1), None]}, None, {"x y": None}]
    maps = [("a", {"1": datetime(2024, 1, 1, 0, 0, 0, 1)}), ("", None)]
    if at == 0:
        return {"id": at, **values, "in side": None, "list s": None, "map s": None}
    filled = {"list s": lists[: at - 1], "map s": maps[: at - 1]}
    return {"id": at, **values, "in side": values, **filled}


def none_but_id(at: int) -> dict[str, Any]:
    return {"id": at, **dict.fromkeys(name.name for name in SCHEMA.fields[1:])}


def quoted(reader: str, name: str) -> str:
    return f"`{name}`" if reader == "Spark" else f'"{name}"'


def all_filters(reader: str) -> Iterator[tuple[str, bool]]:
    """Conditions on every column, some also within the struct; and whether there must be rows."""
    for column in COLUMNS:
        name, outer = quoted(reader, column.name), quoted(reader, "in side")
        inside = f"{outer}.{name}" if reader == "Spark" else f"{outer}['{column.name}']"
        yield f"{name} IS NULL", True
        yield f"{inside} IS NULL", True
        if column.sql:
            literals = [
                literal(reader, column, value) for value in column.values if value is not None
            ]
            yield from ((f"{name} = {literals[at]}", True) for at in (0, 1, -1))
            yield f"{name} < {literals[1]}", False
            yield f"{name} > {literals[-2]}", False
            yield f"{inside} = {literals[-1]}", True


def literal(reader: str, column: Column, value: Any) -> str:
    text = f"{value:f}" if isinstance(value, Decimal) else str(value).removesuffix("+00:00")
    if isinstance(column.type, TimestamptzType):
        text += "+00:00"
        if reader == "delta-rs":
            return f"arrow_cast('{text}', 'Timestamp(Microsecond, Some(\"UTC\"))')"
    return f"CAST('{text}' AS {column.sql[reader]})"
