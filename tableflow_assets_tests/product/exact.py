"""Sums and averages of money and ratings, rounded as the products round them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

SIX_PLACES = Decimal("0.000001")
TWO_PLACES = Decimal("0.01")
TOO_LARGE = 10.0**32


def exact_sum(amounts: Iterable[float]) -> float | None:
    """Of the amounts that are numbers and not too large; None if there is none."""
    counted = [amount for amount in amounts if math.isfinite(amount) and abs(amount) < TOO_LARGE]
    rounded = [_rounded(amount, SIX_PLACES) for amount in counted]
    return float(sum(rounded, Decimal(0))) if rounded else None


def average(ratings: Sequence[int]) -> Decimal | None:
    return _rounded(sum(ratings) / len(ratings), TWO_PLACES) if ratings else None


def comparable(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """With a name for NaN, which is not equal to itself."""
    return [
        {column: "NaN" if _is_nan(value) else value for column, value in row.items()}
        for row in rows
    ]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _rounded(number: float, places: Decimal) -> Decimal:
    # By way of its shortest decimals, as Spark does: 2.675 is 2.68, although its double is below it.
    return Decimal(repr(float(number))).quantize(places, ROUND_HALF_UP)
