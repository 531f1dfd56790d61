"""What a topic's table does not have yet, and since when: from looks at the log's end alone."""

from __future__ import annotations

from dataclasses import dataclass

from tableflow_assets.source.log import Offsets

# Of a topic that cannot be read for hours, the first and the newest looks say enough.
MOST_MARKS = 100


@dataclass(frozen=True)
class Mark:
    """The first look at which the log ended here."""

    at: float
    end: Offsets


class Backlog:
    """Of one topic. Offsets decide what is unread; the clock only says how long it has been waiting."""

    def __init__(self) -> None:
        self._committed: Offsets | None = None
        self._marks: list[Mark] = []  # looks at ends that the table has not reached

    @property
    def is_known(self) -> bool:
        """Whether the table was asked how far it is; until then, all that is in the log counts as unread."""
        return self._committed is not None

    @property
    def waiting_since(self) -> float | None:
        """When the oldest unread record was first seen; None if all is read."""
        return self._marks[0].at if self._marks else None

    @property
    def unread(self) -> int:
        """Offsets that the table had not reached at the last look."""
        if not self._marks:
            return 0
        committed = self._committed or {}
        end = self._marks[-1].end
        return sum(max(0, offset - committed.get(p, 0)) for p, offset in end.items())

    def has_waited_since(self, moment: float) -> None:
        """The oldest unread record was in the log before it was first seen."""
        if self._marks and moment < self._marks[0].at:
            self._marks[0] = Mark(moment, self._marks[0].end)

    def see(self, end: Offsets, now: float) -> None:
        """A look at the log that was taken after everything that was settled."""
        # A log that ends before what the table has read is not "all read": planning says what is wrong.
        committed = self._committed or {}  # of an empty log, there is nothing to ask the table
        if all(committed.get(partition, 0) == offset for partition, offset in end.items()):
            self._marks.clear()
        elif not self._marks or self._marks[-1].end != end:
            if len(self._marks) >= MOST_MARKS:
                del self._marks[MOST_MARKS // 2]
            self._marks.append(Mark(now, end))

    def settle(self, committed: Offsets) -> None:
        """The table has all offsets before these."""
        self._committed = committed
        self._marks = [mark for mark in self._marks if not _covers(committed, mark.end)]


def _covers(committed: Offsets, end: Offsets) -> bool:
    return all(committed.get(partition, 0) >= offset for partition, offset in end.items())
