"""What is said of many measured values."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any


def quantiles(values: Sequence[float]) -> dict[str, Any]:
    if len(values) < 2:  # noqa: PLR2004
        return {"samples": len(values)}
    of_100 = statistics.quantiles(values, n=100, method="inclusive")
    return {
        "samples": len(values),
        **{f"p{rank}": round(of_100[rank - 1], 1) for rank in (50, 95, 99)},
        "max": round(max(values), 1),
    }
