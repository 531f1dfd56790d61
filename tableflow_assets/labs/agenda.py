"""What a lab has promised to send later: an order's items, its payment, a booking's review."""

from __future__ import annotations

import heapq
from itertools import count

from tableflow_assets.labs.record import Draft


class Agenda:
    """Drafts that become due after a number of records.

    Counted in records, not in time, so that the order of the stream depends on the seed alone,
    whatever clock stamps the records.
    """

    def __init__(self) -> None:
        self._position = 0
        self._arrival = count()
        self._waiting: list[tuple[int, int, Draft]] = []

    def add(self, records_later: int, draft: Draft) -> None:
        # The arrival number breaks ties first come, first served; drafts cannot be compared.
        due_at = self._position + records_later
        heapq.heappush(self._waiting, (due_at, next(self._arrival), draft))

    def next_due(self) -> Draft | None:
        """Move on by one record; the draft whose turn it is, or None when nothing is due yet."""
        self._position += 1
        if self._waiting and self._waiting[0][0] <= self._position:
            return heapq.heappop(self._waiting)[2]
        return None
