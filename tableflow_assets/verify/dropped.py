"""Records that retention dropped: in the log still, perhaps, and not to be in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.result import NONE, Int64s

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dropped:
    """What the ledger says about it: older than so, and before these offsets."""

    def __init__(self, entry: Entry) -> None:
        self._pairs = entry.dropped

    @property
    def latest(self) -> datetime | None:
        """Nothing as new as this was dropped; None: nothing at all."""
        if not self._pairs:
            return None
        return EPOCH + timedelta(milliseconds=max(one.before for one in self._pairs))

    def covers(
        self, partitions: Int64s, offsets: Int64s, milliseconds: Int64s
    ) -> npt.NDArray[np.bool_]:
        covered = np.zeros(len(offsets), dtype=np.bool_)
        for one in self._pairs:
            is_old = milliseconds < one.before
            for partition, end in one.end.items():
                covered |= is_old & (partitions == partition) & (offsets < end)
        return covered

    def __bool__(self) -> bool:
        return bool(self._pairs)


class DroppedOffsets:
    """Listens for the offsets of dropped records."""

    def __init__(self, dropped: Dropped) -> None:
        self._dropped = dropped
        self._heard: dict[int, list[Int64s]] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        if not self._dropped:
            return
        count = len(records)
        offsets = np.fromiter((record.offset() for record in records), np.int64, count)
        times = np.fromiter((record.timestamp()[1] for record in records), np.int64, count)
        covered = self._dropped.covers(np.full(count, partition), offsets, times)
        self._heard.setdefault(partition, []).append(offsets[covered])

    def of(self, partition: int) -> Int64s:
        return np.concatenate([NONE, *self._heard.get(partition, ())])


@dataclass(frozen=True)
class Gone:
    """Of one Kafka partition: dropped ``records`` of the log, and ``rows`` that are there still."""

    records: Int64s = field(default_factory=lambda: NONE)
    rows: Int64s = field(default_factory=lambda: NONE)
