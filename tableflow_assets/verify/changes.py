"""One row per key: which change of every key is its last."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from pyiceberg.types import StringType, StructType

from tableflow_assets.verify.keys import Erased, Keys
from tableflow_assets.verify.read_table import SetAside
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.result import Int64s
from tableflow_assets.verify.timestamps import record_milliseconds

WRITES, DELETE = ("c", "u", "r"), "d"
Deletes = Callable[[bytes | None], bool]  # whether a record with this value removes its key's row


class Change(NamedTuple):
    """A key's last change in one partition."""

    latest_ms: int  # the latest of all its changes there: clocks may go backwards
    offset: int
    deletes: bool
    key: bytes


class LastChanges:
    """Listens for every key's last change in every partition.

    Changes are ordered by offset within a partition, and by timestamp, then partition, between
    partitions.
    """

    def __init__(self, keys: Keys, deletes: Deletes, set_aside: SetAside, erased: Erased) -> None:
        self._keys, self._deletes, self._erased = keys, deletes, erased
        self._offsets_by_partition: dict[int, frozenset[int]] = {}
        self._set_aside = set_aside
        self.by_partition: dict[int, dict[Hashable, Change]] = {}
        # Neither changes nor, as they should be, dead letters.
        self.unreadable: dict[int, list[int]] = {}

    def hear(self, partition: int, records: Sequence[Any]) -> None:
        set_aside = self._offsets_set_aside(partition)
        for record in records:
            offset, key = record.offset(), record.key()
            if offset in set_aside or self._erased.covers(partition, offset, key):
                continue
            try:
                identity, deletes = self._keys.identity(key), self._deletes(record.value())
            except Unreadable:
                self.unreadable.setdefault(partition, []).append(offset)
                continue
            change = Change(record_milliseconds(record), offset, deletes, key)
            self.note(partition, identity, change)

    def note(self, partition: int, identity: Hashable, change: Change) -> None:
        changes = self.by_partition.setdefault(partition, {})
        before = changes.get(identity)
        if before is not None:
            later = change if change.offset > before.offset else before
            latest = max(before.latest_ms, change.latest_ms)
            change = later if later.latest_ms == latest else later._replace(latest_ms=latest)
        changes[identity] = change

    def last(self) -> Iterator[tuple[int, Hashable, Change]]:
        """Every key once, with the partition of its last change."""
        for partition, changes in self.by_partition.items():
            elsewhere = [(p, by_key) for p, by_key in self.by_partition.items() if p != partition]
            for identity, change in changes.items():
                rank = (change.latest_ms, partition)
                rivals = ((p, by_key.get(identity)) for p, by_key in elsewhere)
                if all(rival is None or (rival.latest_ms, p) < rank for p, rival in rivals):
                    yield partition, identity, change

    def expected_rows(self) -> Mapping[int, Int64s]:
        offsets: dict[int, list[int]] = {}
        for partition, _, change in self.last():
            if not change.deletes:
                offsets.setdefault(partition, []).append(change.offset)
        return {p: np.array(sorted(values), dtype=np.int64) for p, values in offsets.items()}

    def _offsets_set_aside(self, partition: int) -> frozenset[int]:
        if partition not in self._offsets_by_partition:
            self._offsets_by_partition[partition] = frozenset(
                self._set_aside.offsets_of(partition).tolist()
            )
        return self._offsets_by_partition[partition]


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
