"""Which records have the same key."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np
from pyiceberg.types import IcebergType

from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.plain import Raw
from tableflow_assets.verify.readers import Reader, Unreadable
from tableflow_assets.verify.result import Int64s

HASH_BYTES = 16


class Keys:
    """Keys are equal if their bytes are; with a schema, if their content is, whatever the version."""

    def __init__(self, reader: Reader | None = None, kind: IcebergType | None = None) -> None:
        """``kind``: the type of the table's decoded keys, if it has any."""
        self.reader = reader or Raw()
        self._kind = kind

    def identity(self, key: bytes | None) -> Hashable:
        if key is None:
            raise Unreadable("no key")
        return self.reader.identity(key, self._kind)

    def identity_of_row(self, key: bytes | None, place: tuple[int, int]) -> Hashable:
        """A row's key may be damaged: it then equals no other."""
        try:
            return self.identity(key)
        except Unreadable:
            return ("unreadable", key, *place)

    def hash(self, key: bytes) -> bytes:
        """As the table has it in `_kafka.key_hash`."""
        return _hash(self.reader.identity(key, self._kind))

    def possible_hashes(self, key: bytes) -> set[bytes]:
        """Those of its bytes and of its content: either may be the hash of an erased key."""
        try:
            return {_hash(key), self.hash(key)}
        except Unreadable:
            return {_hash(key)}


class Erased:
    """Records that were erased on request: still in the log, but never in the table."""

    def __init__(self, entry: Entry, keys: Keys) -> None:
        self._keys = keys
        self._before: dict[bytes, dict[int, int]] = {}
        for erasure in entry.forgotten:
            before = self._before.setdefault(bytes.fromhex(erasure.key_hash), {})
            for partition, offset in erasure.before.items():
                before[partition] = max(offset, before.get(partition, 0))

    def covers(self, partition: int, offset: int, key: bytes | None) -> bool:
        if not self._before or key is None:
            return False
        hashes = self._keys.possible_hashes(key)
        return any(offset < self._before.get(h, {}).get(partition, 0) for h in hashes)

    def __bool__(self) -> bool:
        return bool(self._before)


class ErasedOffsets:
    """Listens for the offsets of erased records."""

    def __init__(self, erased: Erased) -> None:
        self._erased = erased
        self._offsets: dict[int, list[int]] = {}

    def hear(self, partition: int, records: Any) -> None:
        if not self._erased:
            return
        self._offsets.setdefault(partition, []).extend(
            record.offset()
            for record in records
            if self._erased.covers(partition, record.offset(), record.key())
        )

    def of(self, partition: int) -> Int64s:
        return np.array(self._offsets.get(partition, ()), dtype=np.int64)


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:HASH_BYTES]
