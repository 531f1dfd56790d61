"""Whether a row that was read back is the one that is expected."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class JsonOf:
    """Expected of a column of text: JSON that says this, in whatever spelling."""

    value: Any


def differences(found: Any, expected: Any, path: str = "") -> Iterator[str]:
    """In words, each with its place. What only ``found`` has must be NULL: another version's."""
    if isinstance(expected, dict) and isinstance(found, list):
        found = dict(found)  # pyarrow has maps as pairs
        if found.keys() != expected.keys():
            yield f"{path}: {list(found)} for {list(expected)}"
            return
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in [*found, *(name for name in expected if name not in found)]:
            if name in found:
                yield from differences(found[name], expected.get(name), f"{path}.{name}")
            else:
                yield f"{path}.{name}: no such column"
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for index, (one, other) in enumerate(zip(found, expected, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif not is_same(found, expected):
        yield f"{path}: found {found!r}, expected {expected!r}"


def is_same(found: Any, expected: Any) -> bool:
    if isinstance(expected, JsonOf):
        return isinstance(found, str) and bool(json.loads(found) == expected.value)
    if isinstance(expected, float) and isinstance(found, float):
        both_nan = math.isnan(expected) and math.isnan(found)
        return both_nan or (found == expected and _sign(found) == _sign(expected))
    return type(found) is type(expected) and bool(found == expected)


def _sign(number: float) -> float:
    return math.copysign(1, number)
