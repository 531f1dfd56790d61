"""The result of comparing table and log for one Kafka partition."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
NONE: Int64s = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class Span:
    """Offsets [start, committed) of one Kafka partition: read by the table, and still in the log."""

    topic: str
    partition: int
    start: int
    committed: int
    end: int


@dataclass(frozen=True)
class PartitionResult:
    """One Kafka partition, compared over the offsets [start, committed) that the log still holds.

    With one row per record, every record is expected to be a row, a dead letter or skipped, and
    ``rows`` are those in the range. With one row per key, only the last change of every key is
    expected, and ``rows`` are all that come from this partition.
    """

    topic: str
    partition: int
    start: int
    committed: int
    end: int
    records: int  # in the log
    expected: int
    rows: int
    dead_letters: int
    skipped: int
    missing: int
    duplicated: int  # how many too many
    unexpected: int
    dropped: int = 0  # records that retention dropped from the table: they must not be rows
    unproven: int = 0  # rows whose records the log has lost to retention or compaction
    earlier: int = 0  # rows of logs before a rebase: counted, not compared
    sampled: int = 0  # rows compared value by value: some, or all
    differing: int = 0  # of these rows
    ledger_ok: bool = True
    first_missing: int | None = None
    first_duplicated: int | None = None
    first_unexpected: int | None = None
    reason: str = ""  # what is wrong with the ledger
    differences: tuple[str, ...] = ()  # of these rows, the first few

    @property
    def ok(self) -> bool:
        has_faults = self.missing or self.duplicated or self.unexpected or self.differing
        return self.ledger_ok and not has_faults

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"ok": self.ok}


def first(offsets: Int64s) -> int | None:
    return int(offsets.min()) if len(offsets) else None
