"""Decodes Kafka values in Confluent's Protobuf format: `0`, schema id, message indexes, the message.

Whole Arrow arrays at a time. A field whose wire type in a record differs from the schema's is skipped,
as by every Protobuf reader: it counts as a field that the schema does not have. If a record has several
members of a oneof, all of them are in the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tableflow_assets.decode.protobuf.conform import Conformer, struct_type
from tableflow_assets.decode.protobuf.frames import HEADER, Frames, Ints, read_indexes, zigzag
from tableflow_assets.decode.protobuf.json_texts import JsonTexts
from tableflow_assets.decode.protobuf.shape import Struct
from tableflow_assets.decode.protobuf.size import has_too_many_values, longest_harmless
from tableflow_assets.decode.protobuf.version import Indexes, Version, pool_of
from tableflow_assets.decode.protobuf.wire import (
    INVALID_UTF8,
    MALFORMED,
    OUT_OF_RANGE,
    Undecodable,
    WireReader,
)

ROW, PROBLEM = "row", "problem"
NOT_FRAMED = "not_confluent_framed"
UNKNOWN_ID = "unknown_schema_id"
WRONG_INDEX = "wrong_message_index"
TOO_MANY = "too_many_values"
PROBLEMS = (NOT_FRAMED, UNKNOWN_ID, WRONG_INDEX, MALFORMED, INVALID_UTF8, OUT_OF_RANGE, TOO_MANY)

_LONGEST_INDEXES = 128  # bytes of message indexes that are read at most
# From so many undecodable messages on, halving takes longer than trying one by one.
_MOST_BY_HALVING = 100


@dataclass(frozen=True)
class _Group:
    """Records of one schema whose messages begin at the same place."""

    version: Version
    rows: Ints
    start: int


class ProtobufDecoder:
    """Decodes one topic's values. Plain data until it first decodes, so that it can be pickled."""

    def __init__(self, shape: Struct, versions: Iterable[Version]) -> None:
        self._shape = shape
        self._versions = {version.schema_id: version for version in versions}
        shapes = [version.shape for version in self._versions.values() if version.shape]
        self._longest_harmless = min(map(longest_harmless, shapes))
        self._readers: dict[int, _Reader] = {}

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_readers": {}}

    @property
    def arrow_type(self) -> pa.StructType:
        return struct_type(self._shape)

    def read(self, framed: pa.Array) -> pa.Array:
        """Row and problem as one array, for Spark; NULL for NULL."""
        rows, problems = self.decode(framed)
        return pa.StructArray.from_arrays(
            [rows, problems], names=[ROW, PROBLEM], mask=framed.is_null()
        )

    def decode(self, framed: pa.Array | pa.ChunkedArray) -> tuple[pa.StructArray, pa.StringArray]:
        """The rows, NULL where a record cannot be decoded, and the problem of each that cannot."""
        chunks = framed.chunks if isinstance(framed, pa.ChunkedArray) else [framed]
        pieces = [piece for chunk in chunks for piece in self._pieces(chunk.cast(pa.binary()))]
        decoded = [self._decode(piece) for piece in pieces]
        if not decoded:
            return pa.array([], self.arrow_type), pa.array([], pa.string())
        rows, problems = zip(*decoded, strict=True)
        return pa.concat_arrays(rows), pa.concat_arrays(problems)

    def _pieces(self, framed: pa.Array) -> Iterator[pa.Array]:
        """Slices so small that decoding needs no more memory for many records than for one."""
        sizes = np.cumsum(np.asarray(pc.fill_null(pc.binary_length(framed), 0), np.int64))
        cuts = np.flatnonzero(np.diff(sizes // self._longest_harmless, prepend=0))
        for begin, end in pairwise((0, *map(int, cuts), len(framed))):
            yield framed.slice(begin, end - begin)

    def _decode(self, framed: pa.Array) -> tuple[pa.StructArray, pa.StringArray]:
        problems = _Problems(len(framed))
        places = np.full(len(framed), -1, np.int64)  # of each record in the decoded arrays
        arrays: list[pa.StructArray] = []
        frames = Frames(framed)
        for group in self._groups(frames, problems):
            array, rows = self._rows(group, frames, problems)
            places[rows] = np.arange(len(rows)) + sum(len(before) for before in arrays)
            arrays.append(array)
        return self._in_order(arrays, places), problems.array()

    def _in_order(self, arrays: list[pa.StructArray], places: Ints) -> pa.StructArray:
        decoded = pa.concat_arrays(arrays) if arrays else pa.array([], self.arrow_type)
        if len(decoded) == len(places) and np.array_equal(places, np.arange(len(places))):
            return decoded
        return decoded.take(pa.array(places, mask=places < 0))

    def _groups(self, frames: Frames, problems: _Problems) -> Iterator[_Group]:
        problems.put(frames.valid & ~frames.framed, NOT_FRAMED)
        for schema_id in np.unique(frames.ids[frames.framed]):
            of_id = frames.framed & (frames.ids == schema_id)
            version = self._versions.get(int(schema_id))
            if version is None:
                problems.put(of_id, UNKNOWN_ID)
            elif version.indexes is None:
                problems.put(of_id, WRONG_INDEX)
            else:
                yield from _by_start(version, version.indexes, frames, of_id, problems)

    def _rows(
        self, group: _Group, frames: Frames, problems: _Problems
    ) -> tuple[pa.StructArray, Ints]:
        reader = self._reader(group.version)
        messages, rows = self._without_too_many_values(group, frames, problems)
        try:
            batch = reader.wire.read(messages)
        except Undecodable:
            bad = _undecodable(reader.wire, messages)
            for row, problem in bad.items():
                problems.put(rows[row], problem)
            messages, rows = _without(list(bad), messages, rows)
            batch = reader.wire.read(messages)
        conformer = Conformer(reader.json.text)
        array = conformer.rows(batch, reader.shape, self._shape)
        for row, problem in conformer.bad_rows.items():
            problems.put(rows[row], problem)
        return _without(sorted(conformer.bad_rows), array, rows)

    def _without_too_many_values(
        self, group: _Group, frames: Frames, problems: _Problems
    ) -> tuple[pa.Array, Ints]:
        messages = frames.after(group.start, group.rows)
        lengths = np.asarray(pc.binary_length(messages))
        shape = self._reader(group.version).shape
        bad = [
            int(row)
            for row in np.flatnonzero(lengths > self._longest_harmless)
            if has_too_many_values(messages[int(row)].as_py(), shape)
        ]
        problems.put(group.rows[bad], TOO_MANY)
        return _without(bad, messages, group.rows)

    def _reader(self, version: Version) -> _Reader:
        if version.schema_id not in self._readers:
            self._readers[version.schema_id] = _Reader(version)
        return self._readers[version.schema_id]


class _Reader:
    def __init__(self, version: Version) -> None:
        if version.shape is None:
            raise TypeError(f"schema {version.schema_id} does not have the message")
        self.shape = version.shape
        self.wire = WireReader(version.shape)
        self.json = JsonTexts(pool_of(version.descriptor_set))


class _Problems:
    def __init__(self, length: int) -> None:
        self._codes = np.full(length, -1, np.int64)

    def put(self, where: Any, problem: str) -> None:
        self._codes[where] = PROBLEMS.index(problem)

    def array(self) -> pa.StringArray:
        return pa.array(PROBLEMS, pa.string()).take(pa.array(self._codes, mask=self._codes < 0))


def _by_start(
    version: Version, indexes: Indexes, frames: Frames, pending: Any, problems: _Problems
) -> Iterator[_Group]:
    usual = [zigzag(len(indexes)) + b"".join(map(zigzag, indexes))]
    if indexes == (0,):
        usual.insert(0, b"\0")
    for encoded in usual:
        matches = frames.matches(pending, HEADER, encoded)
        pending = pending & ~matches
        if matches.any():
            yield _Group(version, np.flatnonzero(matches), HEADER + len(encoded))
    unusual: dict[int, list[int]] = {}
    for row in map(int, np.flatnonzero(pending)):
        beginning = frames.beginning(row, HEADER, _LONGEST_INDEXES)
        record_indexes, length = read_indexes(beginning)
        if record_indexes == indexes:
            unusual.setdefault(length, []).append(row)
        else:
            problems.put(row, WRONG_INDEX)
    for length, rows in unusual.items():
        yield _Group(version, np.array(rows), HEADER + length)


def _without(bad: list[int], array: pa.Array, rows: Ints) -> tuple[pa.Array, Ints]:
    if not bad:
        return array, rows
    good = np.delete(np.arange(len(rows)), bad)
    return array.take(pa.array(good)), rows[good]


def _undecodable(wire: WireReader, messages: pa.Array) -> dict[int, str]:
    """The position of every message that cannot be decoded, and its problem.

    Each is read by itself in the end, so that a record's fate never depends on its neighbours.
    """
    bad: dict[int, str] = {}
    pending = [(0, len(messages))]
    while pending:
        begin, end = pending.pop()
        try:
            wire.read(messages.slice(begin, end - begin))
        except Undecodable as error:
            if end - begin == 1:
                bad[begin] = error.problem
            elif len(bad) < _MOST_BY_HALVING:
                middle = (begin + end) // 2
                pending += [(middle, end), (begin, middle)]
            else:
                pending += [(row, row + 1) for row in range(begin, end)]
    return bad
