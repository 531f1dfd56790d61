"""What the log can still prove about an offset that it no longer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.result import Int64s, Span


@dataclass(frozen=True)
class Provable:
    begin: Mapping[int, int]  # per partition, the first offset that the table can have
    entry: Entry
    is_compacted: Callable[[], bool]  # asks the broker, so it is called only if it matters

    def no_longer(self, span: Span, offsets: Int64s, logged: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these offsets the log may have held once, before retention or compaction."""
        is_gone = ~np.isin(offsets, logged)
        is_gone &= (offsets >= self.begin.get(span.partition, 0)) & (offsets < span.committed)
        for partition, lost_from, lost_to in self.entry.lost:
            if partition == span.partition:  # expired before they were read: never in the table
                is_gone &= (offsets < lost_from) | (offsets >= lost_to)
        is_older = offsets < span.start
        if (is_gone & ~is_older).any() and self.is_compacted():
            return is_gone
        return is_gone & is_older
