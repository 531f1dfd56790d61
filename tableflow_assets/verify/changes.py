"""One row a key: which change of every key is its last."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pyiceberg.types import StringType, StructType

from tableflow_assets.verify.keys import Erased, Keys
from tableflow_assets.verify.read_table import Aside
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.result import Int64s

WRITES, DELETE = ("c", "u", "r"), "d"
Deletes = Callable[[bytes | None], bool]  # whether a record with this value removes its key's row


class Change(NamedTuple):
    """A key's last change in one partition."""

    latest_ms: int  # of all its changes there: a clock may go backwards
    offset: int
    deletes: bool
    key: bytes


class LastChanges:
    """Listens for every key's last change in every partition.

    The order of two changes: within a partition, by offset; between partitions, by timestamp, then
    partition.
    """

    def __init__(self, keys: Keys, deletes: Deletes, aside: Aside, erased: Erased) -> None:
        self._keys, self._deletes, self._erased = keys, deletes, erased
        self._aside: dict[int, frozenset[int]] = {}
        self._all_aside = aside
        self.by_partition: dict[int, dict[Hashable, Change]] = {}
        # Neither a change nor, as it should then be, among the dead letters.
        self.unreadable: dict[int, list[int]] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        aside = self._offsets_aside(partition)
        for record in records:
            offset, key = record.offset(), record.key()
            if offset in aside or self._erased.covers(partition, offset, key):
                continue
            try:
                identity, deletes = self._keys.identity(key), self._deletes(record.value())
            except Unreadable:
                self.unreadable.setdefault(partition, []).append(offset)
                continue
            change = Change(record.timestamp()[1], offset, deletes, key)
            self.note(partition, identity, change)

    def note(self, partition: int, identity: Hashable, change: Change) -> None:
        known = self.by_partition.setdefault(partition, {})
        before = known.get(identity)
        if before is not None:
            later = change if change.offset > before.offset else before
            latest = max(before.latest_ms, change.latest_ms)
            change = later if later.latest_ms == latest else later._replace(latest_ms=latest)
        known[identity] = change

    def last(self) -> Iterator[tuple[int, Hashable, Change]]:
        """Every key once, with the partition of its last change."""
        for partition, changes in self.by_partition.items():
            others = [(p, known) for p, known in self.by_partition.items() if p != partition]
            for identity, change in changes.items():
                mine = (change.latest_ms, partition)
                elsewhere = ((p, known.get(identity)) for p, known in others)
                if all(other is None or (other.latest_ms, p) < mine for p, other in elsewhere):
                    yield partition, identity, change

    def expected_rows(self) -> Mapping[int, Int64s]:
        offsets: dict[int, list[int]] = {}
        for partition, _, change in self.last():
            if not change.deletes:
                offsets.setdefault(partition, []).append(change.offset)
        return {p: np.array(sorted(known), dtype=np.int64) for p, known in offsets.items()}

    def _offsets_aside(self, partition: int) -> frozenset[int]:
        if partition not in self._aside:
            self._aside[partition] = frozenset(self._all_aside.offsets_of(partition).tolist())
        return self._aside[partition]


def deletes_in(mode: str, values: Callable[[], Reader]) -> Deletes:
    """A tombstone deletes; in mode `cdc`, so does the envelope's operation `d`."""
    if mode != "cdc":
        return lambda value: value is None
    reader, text, any_record = values(), StringType(), StructType()

    def deletes(value: bytes | None) -> bool:
        if value is None:
            return True
        envelope = reader.read(value)
        operation = reader.as_column(envelope, ("op",), text)
        if operation == DELETE:
            return True
        if operation in WRITES and reader.as_column(envelope, ("after",), any_record) is not None:
            return False
        raise Unreadable("no change of a row")

    return deletes
