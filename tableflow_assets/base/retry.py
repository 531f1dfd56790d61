"""Asking again, after a pause."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def patiently(ask: Callable[[], T], pauses: Sequence[float], after: type[Exception]) -> T:
    """Once more after every pause (in seconds) while the answer is this error; the last one counts."""
    for pause in pauses:
        try:
            return ask()
        except after:
            time.sleep(pause)
    return ask()
