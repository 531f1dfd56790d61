"""Confluent's frame around a Protobuf message: a zero byte, the schema id, message indexes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tableflow_assets.decode.protobuf.version import Indexes

HEADER = 5  # bytes: the magic byte and the schema id
_LONGEST_VARINT = 10

Ints = npt.NDArray[np.int64]


class Frames:
    """The bytes of an array of records, and what their headers say."""

    def __init__(self, framed: pa.Array) -> None:
        _, offsets, data = framed.buffers()
        ends = np.frombuffer(offsets, np.int32) if offsets else np.zeros(1, np.int32)
        ends = ends[framed.offset : framed.offset + len(framed) + 1].astype(np.int64)
        self.data = np.frombuffer(data if data else b"", np.uint8)
        self.start, self.end = ends[:-1], ends[1:]
        self.valid = np.asarray(framed.is_valid())
        long_enough = self.valid & (self.end - self.start >= HEADER)
        self.framed = self.matches(long_enough, 0, b"\0")
        self.ids = np.zeros(len(framed), np.int32)
        first = self.start[self.framed]
        parts = [self.data[first + place].astype(np.uint32) for place in range(1, HEADER)]
        whole = parts[0] << 24 | parts[1] << 16 | parts[2] << 8 | parts[3]
        self.ids[self.framed] = whole.astype(np.uint32).view(np.int32)

    def matches(self, among: npt.NDArray[np.bool_], at: int, content: bytes) -> Any:
        """Which of them have this content at this position."""
        matches = among & (self.end - self.start >= at + len(content))
        for place, byte in enumerate(content, start=at):
            rows = np.flatnonzero(matches)
            matches[rows] = self.data[self.start[rows] + place] == byte
        return matches

    def after(self, at: int, rows: Ints) -> pa.Array:
        """The content of these rows from that byte on."""
        # Heads and tails alternate over the same buffer, so that only the selected tails are copied.
        cuts = np.empty(2 * len(self.start) + 1, np.int32)
        cuts[0:-1:2] = self.start
        cuts[1::2] = np.minimum(self.start + at, self.end)
        cuts[-1] = self.end[-1]
        buffers = [None, pa.py_buffer(cuts), pa.py_buffer(self.data)]
        halves = pa.Array.from_buffers(pa.binary(), len(cuts) - 1, buffers)
        return halves.take(pa.array(2 * rows + 1))

    def beginning(self, row: int, at: int, length: int) -> bytes:
        start = self.start[row] + at
        return self.data[start : min(start + length, self.end[row])].tobytes()


def zigzag(number: int) -> bytes:
    value = number << 1  # never negative
    encoded = bytearray()
    while value > 0x7F:  # noqa: PLR2004
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))


def read_indexes(content: bytes) -> tuple[Indexes | None, int]:
    """The indexes at the beginning and their length in bytes; None if they cannot be read."""
    count, at = _read_zigzag(content, 0)
    if count is None or not 0 <= count <= len(content):
        return None, 0
    indexes = []
    for _ in range(count):
        index, at = _read_zigzag(content, at)
        if index is None or index < 0:
            return None, 0
        indexes.append(index)
    return tuple(indexes) or (0,), at


def _read_zigzag(content: bytes, at: int) -> tuple[int | None, int]:
    value = 0
    for place, byte in enumerate(content[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:  # noqa: PLR2004
            return value >> 1 ^ -(value & 1), at + place + 1
    return None, at
