"""Values as places on an axis, and the labels that stand along it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tableflow_assets.query.charts import svg

LABELS = 8  # along the x axis, at most
CUT_AT = 36  # characters of a label
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
TIME_STEPS = (
    *(1.0, 5.0, 15.0, 30.0),
    *(MINUTE * n for n in (1, 5, 15, 30)),
    *(HOUR * n for n in (1, 2, 3, 6, 12)),
    *(DAY * n for n in (1, 2, 7, 14, 28, 91, 182, 364)),
)


def place_of(value: Any) -> float | None:
    """Of a number, or of a time; None for text."""
    if isinstance(value, datetime):
        return (_utc(value) - EPOCH).total_seconds()
    if isinstance(value, date):
        return (value - EPOCH.date()).total_seconds()
    return number_of(value)


def number_of(value: Any) -> float | None:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def ticks(given: Sequence[Any], places: Sequence[float | None]) -> Iterator[tuple[float, str]]:
    known = sorted({place for place in places if place is not None})
    if any(isinstance(value, date) for value in given):
        yield from _time_ticks(known[0], known[-1])
    elif all(number_of(value) is None for value in given):
        every = math.ceil(len(given) / LABELS)
        for place, value in [*zip(known, given, strict=True)][::every]:
            yield place, cut(shown(value), CUT_AT // 3)
    else:
        step = svg.nice_step((known[-1] - known[0]) or 1)
        first, last = math.ceil(known[0] / step), math.floor(known[-1] / step)
        for number in range(first, last + 1):
            yield number * step, svg.number_text(number * step, step)


def _time_ticks(begin: float, end: float) -> Iterator[tuple[float, str]]:
    years = math.ceil((end - begin) / LABELS / TIME_STEPS[-1])
    step = next(
        (one for one in TIME_STEPS if (end - begin) / one <= LABELS), years * TIME_STEPS[-1]
    )
    first, last = math.ceil(begin / step), math.floor(end / step)
    is_one_day = begin // DAY == end // DAY
    form = "%H:%M:%S" if step < MINUTE else "%H:%M"
    if step >= DAY:
        form = "%Y-%m-%d"
    elif not is_one_day:
        form = f"%m-%d {form}"
    for number in range(first, last + 1):
        yield number * step, f"{EPOCH + timedelta(seconds=number * step):{form}}"


def shown(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{_utc(value):%Y-%m-%d %H:%M}"
    return "NULL" if value is None else str(value)


def cut(text: str, at: int = CUT_AT) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= at else f"{flat[: at - 1]}…"


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
