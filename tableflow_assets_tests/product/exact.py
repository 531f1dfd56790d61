"""Sums and averages of money and ratings, rounded as the products round them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

SIX_PLACES = Decimal("0.000001")
TWO_PLACES = Decimal("0.01")


def exact_sum(amounts: Iterable[float]) -> float:
    rounded = (_rounded(amount, SIX_PLACES) for amount in amounts)
    return float(sum(rounded, Decimal(0)))


def average(ratings: Sequence[int]) -> Decimal | None:
    return _rounded(sum(ratings) / len(ratings), TWO_PLACES) if ratings else None


def _rounded(number: float, places: Decimal) -> Decimal:
    # By way of its shortest decimals, as Spark does: 2.675 is 2.68, although its double is below it.
    return Decimal(repr(float(number))).quantize(places, ROUND_HALF_UP)
