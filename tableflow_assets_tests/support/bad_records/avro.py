"""Avro, written by fastavro and read by the letter.

Not read by fastavro, which takes a union's member -1 for the last one, as Python does.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any

import fastavro

from tableflow_assets_tests.support.bad_records.format import (
    INVALID_UTF8,
    Bad,
    Crafted,
    Format,
    Row,
    added,
    zigzag,
)

MALFORMED = "malformed_avro"
DIGITS, SCALE = 9, 2
UP_TO_NAME = zigzag(1) + zigzag(2) + struct.pack("<d", 0.5)
UP_TO_TAGS = UP_TO_NAME + zigzag(1) + b"a"
UP_TO_PRICE = UP_TO_TAGS + zigzag(0) + zigzag(0) + zigzag(1)
AFTER_NAME = zigzag(0) + zigzag(0) + zigzag(1) + zigzag(1) + b"\x07" + zigzag(0)
DEEP = 100  # levels


class AvroFormat(Format):
    kind, malformed = "AVRO", MALFORMED
    nothing_more = b""  # the fields of `more_fields`, without a value

    def schema(self, version: int) -> Any:
        place = [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}]
        kinds: dict[str, Any] = {
            "id": "long",
            "count": "int",
            "amount": "double",
            "name": "string",
            "tags": {"type": "array", "items": "string"},
            "place": {"type": "record", "name": "Place", "fields": place},
            "price": _logical("bytes", "decimal", precision=DIGITS, scale=SCALE),
            "at": _logical("long", "timestamp-micros"),
        }
        kinds |= self.more_fields()
        fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
        late = [{"name": n, "type": ["null", "string"], "default": None} for n in added(version)]
        return {"type": "record", "name": "Stay", "doc": self.token, "fields": [*fields, *late]}

    def key_schema(self) -> Any:
        return {"type": "record", "name": "Key", "fields": [{"name": "n", "type": "long"}]}

    def row(self, random: Random, version: int = 1) -> Row:
        price = Decimal(random.randrange(-(10**DIGITS) + 1, 10**DIGITS)).scaleb(-SCALE)
        at = random.randrange(10**15, 2 * 10**15)
        return super().row(random, version) | {"price": price, "at": at}

    def write(self, row: Row, version: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, _parsed(json.dumps(self.schema(version))), row)
        return out.getvalue()

    def write_key(self, number: int) -> bytes:
        return zigzag(number)

    def read(self, body: bytes, version: int) -> Row:
        wire = _Wire(body)
        row: Row = {
            "id": wire.long(),
            "count": wire.integer(),
            "amount": struct.unpack("<d", wire.take(8))[0],
            "name": wire.sized(),
            "tags": list(wire.strings()),
            "place": {"city": wire.sized(), "zip": wire.integer()},
            "price": wire.decimal(),
            "at": wire.long(),
        }
        row |= self.read_more(wire)
        row |= {name: wire.optional() for name in added(version)}
        if wire.at != len(body) or abs(row["price"]) >= 10**DIGITS:
            raise Bad(MALFORMED)
        try:
            text: Row = _as_text(row)
            return text | {"price": Decimal(row["price"]).scaleb(-SCALE)}
        except UnicodeDecodeError:
            # In a tree, which becomes JSON text, it is one with other damage.
            raise Bad(INVALID_UTF8, *([MALFORMED] if row.get("tree") else [])) from None

    def more_fields(self) -> dict[str, Any]:
        """After those above, and before what later versions add."""
        return {}

    def read_more(self, wire: _Wire) -> Row:
        return {}

    def crafted(self) -> Mapping[str, Crafted]:
        of, more = _one_of, self.nothing_more

        lengths, counts = (2**31 - 1, 2**31, 2**40, 2**62), (10**6, 9_999_999)
        no_text = (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\x80")
        return {
            "huge length": of(*(UP_TO_NAME + zigzag(n) + b"abc" for n in lengths)),
            "negative length": of(*(UP_TO_NAME + zigzag(-n) + b"abc" for n in (1, 70, *lengths))),
            "endless number": of(b"\xff" * 11, zigzag(1) + b"\xff" * 6, b"\x80" * 500),
            "array without its elements": of(
                *(UP_TO_TAGS + zigzag(n) + b"\x02a" for n in (*counts, *lengths)),
                *(UP_TO_TAGS + zigzag(-n) + zigzag(2) + b"\x02a" for n in (*counts, *lengths)),
            ),
            "decimal out of range": of(
                *(UP_TO_PRICE + _sized(_bytes(n)) + zigzag(0) for n in (10**9, -(10**9), 10**40)),
                UP_TO_PRICE + _sized(b"\x7f" * 5000) + zigzag(0),
            ),
            "no text": of(
                *(UP_TO_NAME + _sized(text) + AFTER_NAME + more for text in no_text),
                problem=INVALID_UTF8,
            ),
        }


class RecursiveAvroFormat(AvroFormat):
    """With a type that contains itself: the library reads it on another way."""

    nothing_more = b"\x00"

    def more_fields(self) -> dict[str, Any]:
        fields = [{"name": "label", "type": "string"}, {"name": "next", "type": ["null", "Tree"]}]
        return {"tree": ["null", {"type": "record", "name": "Tree", "fields": fields}]}

    def row(self, random: Random, version: int = 1) -> Row:
        tree = random.choice((None, {"label": "é", "next": {"label": "", "next": None}}))
        return super().row(random, version) | {"tree": tree}

    def read_more(self, wire: _Wire) -> Row:
        labels = []
        while wire.member():
            labels.append(wire.sized())
        if len(labels) > DEEP:
            raise Bad(MALFORMED)
        tree: Any = None
        for label in reversed(labels):
            tree = {"label": label, "next": tree}
        return {"tree": tree}

    def in_table(self, row: Row) -> Row:
        return row | {"tree": row["tree"] and json.loads(row["tree"])}

    def crafted(self) -> Mapping[str, Crafted]:
        def tree(levels: int) -> bytes:
            return UP_TO_NAME + zigzag(0) + AFTER_NAME + b"\x02\x02a" * levels + b"\x00"

        return {
            **super().crafted(),
            "deep": _one_of(tree(DEEP), problem=None),
            "too deep": _one_of(tree(1000), tree(100_000)),
        }


class _Wire:
    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.body):
            raise Bad(MALFORMED)
        return self.body[start : self.at]

    def long(self, most_bytes: int = 10, bits: int = 64) -> int:
        number: int = 0
        for place in range(most_bytes):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                number %= 2**bits  # of a number with too many bits the lowest count, as in Java
                return number >> 1 ^ -(number & 1)
        raise Bad(MALFORMED)

    def integer(self) -> int:
        return self.long(5, 32)

    def sized(self) -> bytes:
        return self.take(self.long())

    def decimal(self) -> int:
        content = self.sized()
        if not content:  # no bytes are no number
            raise Bad(MALFORMED)
        return int.from_bytes(content, "big", signed=True)

    def strings(self) -> Iterator[bytes]:
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # the size of the block
            for _ in range(count):
                yield self.sized()

    def member(self) -> int:
        """Of a union of null and something else."""
        member = self.integer()
        if member not in (0, 1):
            raise Bad(MALFORMED)
        return member

    def optional(self) -> bytes | None:
        return self.sized() if self.member() else None


def _one_of(*choices: bytes, problem: str | None = MALFORMED) -> Crafted:
    return Crafted(problem, lambda random: random.choice(choices))


def _logical(kind: str, logical: str, **parameters: int) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical, **parameters}


@cache
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


def _sized(content: bytes) -> bytes:
    return zigzag(len(content)) + content


def _bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _as_text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, dict):
        return {name: _as_text(inner) for name, inner in value.items()}
    return [_as_text(inner) for inner in value] if isinstance(value, list) else value
