"""JSON as the judge reads it: strictly, and without losing a digit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from tableflow_assets.verify.readers import Unreadable

_LONG = 2**63


@dataclass(frozen=True)
class Fraction:
    """A number with a point or an exponent, as it is written: `1.5E1` and `15.0` are told apart."""

    text: str


def read_json(text: str | bytes) -> Any:
    try:
        known = text.decode() if isinstance(text, bytes) else text
        return json.loads(known, parse_float=Fraction, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # also of bytes that are no text
        raise Unreadable(f"not JSON: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def is_same_json(one: Any, other: Any) -> bool:
    """Equal as JSON has it: `1` is `1.0`. Without recursion: both may be deep."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(left[key], right[key]) for key in left]
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif not _is_same_scalar(left, right):
            return False
    return True


def _is_same_scalar(one: Any, other: Any) -> bool:
    numbers = [_number(one), _number(other)]
    if None in numbers:
        return type(one) is type(other) and bool(one == other)
    left, right = numbers
    if left == right:
        return True
    # Beyond 64 bits, and after the point, an engine may keep no more than a double does.
    is_exact = any(_is_long(number) for number in numbers)
    return not is_exact and float(left) == float(right)  # type: ignore[arg-type]


def _number(value: Any) -> Decimal | None:
    if isinstance(value, Fraction):
        value = value.text
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return Decimal(value)
    except (InvalidOperation, ValueError):
        return None


def _is_long(number: Decimal | None) -> bool:
    is_small = number is not None and number.is_finite() and abs(number) < _LONG
    return is_small and number == int(number)  # type: ignore[arg-type]
