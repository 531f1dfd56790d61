"""JSON values as what a column of one value holds: by the column's type alone."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    TimestamptzType,
)

from tableflow_assets.verify.json_text import Fraction
from tableflow_assets.verify.readers import Unreadable

_MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)?", re.ASCII
)
_MICROSECOND, _SECOND = timedelta(microseconds=1), timedelta(seconds=1)
_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def text_of(value: Any) -> str:
    if not isinstance(value, str):
        raise Unreadable("no string")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Unreadable("neither true nor false")
    return value


def _whole(bits: int) -> Callable[[Any], int]:
    def whole(value: Any) -> int:
        if isinstance(value, Fraction):
            value = _number(value)
            value = int(value) if value.is_integer() else None
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unreadable("no whole number")
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise Unreadable("too large a number")
        return value

    return whole


def _number(value: Any) -> float:
    if isinstance(value, Fraction):
        return float(value.text)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unreadable("no number")
    try:
        return float(value)
    except OverflowError:
        raise Unreadable("too large a number") from None


def _small_number(value: Any) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", _number(value)))[0])
    except OverflowError:
        raise Unreadable("too large a number") from None


def _day(value: Any) -> int:
    if not isinstance(value, str):
        return _whole(32)(value)  # days since 1970: Kafka Connect's
    try:
        return (date.fromisoformat(value) - date(1970, 1, 1)).days
    except ValueError:
        raise Unreadable("no date") from None


def _moment(value: Any) -> int:
    if not isinstance(value, str):
        return _whole(64)(value) * 1000  # milliseconds since 1970: Kafka Connect's
    match = _MOMENT.fullmatch(value)
    if match is None:
        raise Unreadable("no date and time")
    offset = "+00:00" if (match[4] or "Z") in "Zz" else match[4]
    is_leap = match[2].endswith("60")
    clock = f"{match[2][:-2]}59" if is_leap else match[2]
    try:
        since = datetime.fromisoformat(f"{match[1]}T{clock}{offset}") - _EPOCH
    except ValueError:
        raise Unreadable("no date and time") from None
    if (
        is_leap
    ):  # the one that a day in UTC may have at its end: where POSIX counts the next day's first
        since += _SECOND
        if since % _DAY:
            raise Unreadable("no leap second")
    return since // _MICROSECOND + int((match[3] or "")[:6].ljust(6, "0"))


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(text_of(value), validate=True)
    except ValueError:
        raise Unreadable("not base64") from None


LEAVES: dict[type, Callable[[Any], Any]] = {
    BooleanType: _boolean,
    IntegerType: _whole(32),
    LongType: _whole(64),
    FloatType: _small_number,
    DoubleType: _number,
    DateType: _day,
    TimestamptzType: _moment,
    BinaryType: _bytes,
}
