"""Records that retention dropped: perhaps still in the log, but never in the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.result import NONE, Int64s
from tableflow_assets.verify.timestamps import record_milliseconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Dropped:
    """What the ledger says was dropped: records before these offsets and older than a moment."""

    def __init__(self, entry: Entry) -> None:
        self._drops = entry.dropped

    @property
    def latest(self) -> datetime | None:
        """Nothing as new as this was dropped; None if nothing was dropped at all."""
        if not self._drops:
            return None
        return EPOCH + timedelta(milliseconds=max(drop.before for drop in self._drops))

    def covers(
        self, partitions: Int64s, offsets: Int64s, milliseconds: Int64s
    ) -> npt.NDArray[np.bool_]:
        covered = np.zeros(len(offsets), dtype=np.bool_)
        for drop in self._drops:
            is_old = milliseconds < drop.before
            for partition, end in drop.end.items():
                covered |= is_old & (partitions == partition) & (offsets < end)
        return covered

    def __bool__(self) -> bool:
        return bool(self._drops)


class DroppedOffsets:
    """Listens for the offsets of dropped records."""

    def __init__(self, dropped: Dropped) -> None:
        self._dropped = dropped
        self._offsets: dict[int, list[Int64s]] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        if not self._dropped:
            return
        count = len(records)
        offsets = np.fromiter((record.offset() for record in records), np.int64, count)
        times = np.fromiter(map(record_milliseconds, records), np.int64, count)
        covered = self._dropped.covers(np.full(count, partition), offsets, times)
        self._offsets.setdefault(partition, []).append(offsets[covered])

    def of(self, partition: int) -> Int64s:
        return np.concatenate([NONE, *self._offsets.get(partition, ())])


@dataclass(frozen=True)
class PartitionDrops:
    """Of one Kafka partition: dropped ``records`` still in the log, and ``rows`` still in the table."""

    records: Int64s = field(default_factory=lambda: NONE)
    rows: Int64s = field(default_factory=lambda: NONE)
