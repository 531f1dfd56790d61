"""The moment that a table has for a record: Kafka's own, unless no calendar has it.

Outside of these limits a table has the nearest of the two. Tables written before there were limits have
Kafka's number; it stands for the same moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tableflow_assets.verify.result import Int64s

# Spelled out rather than imported: nothing of the write path takes part in judging it.
EARLIEST_MS = -2_208_988_800_000  # 1900-01-01, UTC
LATEST_MS = 253_370_764_800_000  # 9999-01-01, UTC


def record_milliseconds(record: Any) -> int:
    """Of a record in the log, as its row should have it."""
    return min(max(int(record.timestamp()[1]), EARLIEST_MS), LATEST_MS)


def row_milliseconds(microseconds: Int64s) -> Int64s:
    """Of rows."""
    return np.clip(microseconds // 1000, EARLIEST_MS, LATEST_MS)


def expected_microseconds(record: Any, stored: int) -> int:
    """What a record's row should have; of two numbers for one moment, the one it has."""
    exact = int(record.timestamp()[1]) * 1000
    return exact if stored == exact else record_milliseconds(record) * 1000
