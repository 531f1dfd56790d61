"""What the log can still say about an offset that it does not hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.result import Int64s, Place


@dataclass(frozen=True)
class Provable:
    begin: Mapping[int, int]  # per partition, the first offset that the table can have
    entry: Entry
    is_compacted: Callable[[], bool]  # a question to the broker: asked only where it matters

    def no_longer(self, place: Place, offsets: Int64s, logged: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these offsets the log may have held once: retention or compaction took them."""
        is_gone = ~np.isin(offsets, logged)
        is_gone &= (offsets >= self.begin.get(place.partition, 0)) & (offsets < place.committed)
        for partition, lost_from, lost_to in self.entry.lost:
            if partition == place.partition:  # expired unread: the table cannot have them
                is_gone &= (offsets < lost_from) | (offsets >= lost_to)
        is_older = offsets < place.start
        if (is_gone & ~is_older).any() and self.is_compacted():
            return is_gone
        return is_gone & is_older
