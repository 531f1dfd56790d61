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
    """A number with a point or an exponent, as written: `1.5E1` and `15.0` differ."""

    text: str


def read_json(text: str | bytes) -> Any:
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        return json.loads(decoded, parse_float=Fraction, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:  # also if the bytes are not UTF-8
        raise Unreadable(f"not JSON: {error}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"JSON has no number {name}")


def is_same_json(first: Any, second: Any) -> bool:
    """Equal as JSON: `1` is `1.0`. Without recursion, because both may be deep."""
    pairs = [(first, second)]
    while pairs:
        a, b = pairs.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pairs += [(a[key], b[key]) for key in a]
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs += zip(a, b, strict=True)
        elif not _is_same_scalar(a, b):
            return False
    return True


def _is_same_scalar(first: Any, second: Any) -> bool:
    a, b = _number(first), _number(second)
    if a is None or b is None:
        return type(first) is type(second) and bool(first == second)
    if a == b:
        return True
    # Beyond 64 bits, and after the point, an engine may keep no more than a double does.
    is_exact = _is_long(a) or _is_long(b)
    return not is_exact and float(a) == float(b)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, Fraction):
        value = value.text
    elif isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return Decimal(value)
    except (InvalidOperation, ValueError):
        return None


def _is_long(number: Decimal) -> bool:
    return number.is_finite() and abs(number) < _LONG and number == int(number)
