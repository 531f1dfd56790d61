"""Which records have the same key."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Hashable
from typing import Any

import numpy as np

from tableflow_assets.source.registry import Subject
from tableflow_assets.table.ledger import Entry
from tableflow_assets.verify.avro import Avro, Unreadable
from tableflow_assets.verify.result import Int64s

HASH_BYTES = 16
# The table's hash of a key that is a record also covers this field, which the table's writer adds.
WRITERS_MARKER = "__tableflow_decoded"


class Keys:
    """Keys are equal as bytes; with a schema, as content, whatever version they were written with."""

    def __init__(self, subject: Subject | None) -> None:
        self._avro = None if subject is None else Avro(subject, of_keys=True)

    @property
    def are_plain(self) -> bool:
        return self._avro is None

    def identity(self, key: bytes | None) -> Hashable:
        if key is None:
            raise Unreadable
        return key if self._avro is None else _hashable(_without_nulls(self._avro.read(key)))

    def identity_of_row(self, key: bytes | None, place: tuple[int, int]) -> Hashable:
        """A row's key may be damaged: then it is like no other."""
        try:
            return self.identity(key)
        except Unreadable:
            return ("unreadable", key, *place)

    def hash(self, key: bytes) -> bytes:
        """As the table has it in `_kafka.key_hash`.

        With a schema: of the key as JSON, sorted and without nulls, made here after Spark's rules for
        text, whole numbers, bytes and records of them. Dates and fractions it may write differently.
        """
        return _hash(key if self._avro is None else self._json(self._avro.read(key)))

    def possible_hashes(self, key: bytes) -> set[bytes]:
        """Of its bytes and of its content: erased keys may be known by either."""
        try:
            return {_hash(key), self.hash(key)}
        except Unreadable:
            return {_hash(key)}

    def _json(self, content: Any) -> bytes:
        if isinstance(content, dict):
            content = content | {WRITERS_MARKER: True}
        known = _printable(_without_nulls({"key": content}))
        text = json.dumps(known, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
        return text.encode()

    def spellings(self, key: bytes) -> set[bytes]:
        """The bytes that this key may have in the table: its content, by every version."""
        if self._avro is None:
            return {key}
        spellings = {key}
        content = self._avro.read(key)
        for version in self._avro.versions:
            if (written := self._avro.write(content, version.schema_id)) is not None:
                spellings.add(written)
        return spellings


class Erased:
    """Records that were forgotten on request: in the log still, and not to be in the table."""

    def __init__(self, entry: Entry, keys: Keys) -> None:
        self._keys = keys
        self._before: dict[bytes, dict[int, int]] = {}
        for one in entry.forgotten:
            before = self._before.setdefault(bytes.fromhex(one.key_hash), {})
            for partition, offset in one.before.items():
                before[partition] = max(offset, before.get(partition, 0))

    def covers(self, partition: int, offset: int, key: bytes | None) -> bool:
        if not self._before or key is None:
            return False
        known = (self._before.get(one, {}) for one in self._keys.possible_hashes(key))
        return any(offset < before.get(partition, 0) for before in known)

    def __bool__(self) -> bool:
        return bool(self._before)


class ErasedOffsets:
    """Listens for the offsets of erased records."""

    def __init__(self, erased: Erased) -> None:
        self._erased = erased
        self._heard: dict[int, list[int]] = {}

    def hear(self, partition: int, records: Any) -> None:
        if not self._erased:
            return
        self._heard.setdefault(partition, []).extend(
            record.offset()
            for record in records
            if self._erased.covers(partition, record.offset(), record.key())
        )

    def of(self, partition: int) -> Int64s:
        return np.array(self._heard.get(partition, ()), dtype=np.int64)


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(sorted((name, _hashable(inner)) for name, inner in value.items()))
    if isinstance(value, list):
        return tuple(_hashable(inner) for inner in value)
    if isinstance(value, float):
        return struct.pack(">d", value)  # one NaN is like another
    return value  # type: ignore[no-any-return]


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: inner for name, inner in value.items() if inner is not None}
        return {name: _without_nulls(inner) for name, inner in kept.items()}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _printable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_printable(inner) for inner in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:HASH_BYTES]
