"""One cell of an answer: as a number, as a place on an axis, and as text."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WITHOUT_DECIMALS = 1000  # and larger numbers
LONGEST_LABEL = 36  # characters


def place_of(value: Any) -> float | None:
    """On an axis: of a number, or of a time; None for text."""
    if isinstance(value, datetime):
        return (_utc(value) - EPOCH).total_seconds()
    if isinstance(value, date):
        return (value - EPOCH.date()).total_seconds()
    return number_of(value)


def number_of(value: Any) -> float | None:
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None


def number_text(value: float) -> str:
    is_whole = value == round(value) or abs(value) >= WITHOUT_DECIMALS
    return f"{value:,.0f}" if is_whole else f"{value:,.2f}"


def value_text(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{_utc(value):%Y-%m-%d %H:%M}"
    return "NULL" if value is None else str(value)


def cut(text: str, at: int = LONGEST_LABEL) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= at else f"{flat[: at - 1]}…"


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
