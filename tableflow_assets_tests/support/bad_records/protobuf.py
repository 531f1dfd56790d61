"""Protobuf, written and read by Google's own library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from random import Random
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from tableflow_assets_tests.decode.protobuf.messages import message_class
from tableflow_assets_tests.support.bad_records.format import (
    INVALID_UTF8,
    Bad,
    Crafted,
    Format,
    Row,
    added,
    varint,
    zigzag,
)

MALFORMED, WRONG_INDEX = "malformed_protobuf", "wrong_message_index"
FIRST_MESSAGE = b"\x00"
NAME, TREE, NEXT, NUMBERS, PARTS = b"\x22", b"\x42", b"\x12", b"\x4a", b"\x52"  # tags
COLUMNS_OF_A_PART = 50
TOO_MANY_PARTS = 20_100_000 // COLUMNS_OF_A_PART  # more values than a record may have


class ProtobufFormat(Format):
    kind, malformed = "PROTOBUF", MALFORMED

    def schema(self, version: int, text: str = "string") -> str:
        late = "".join(f"optional {text} {n} = {20 + i}; " for i, n in enumerate(added(version)))
        wide = " ".join(f"int32 p{n} = {n};" for n in range(1, COLUMNS_OF_A_PART + 1))
        return f"""syntax = "proto3";
            import "google/protobuf/timestamp.proto";
            message Stay {{
                int64 id = 1; int32 count = 2; double amount = 3; {text} name = 4;
                repeated {text} tags = 5; Place place = 6; google.protobuf.Timestamp at = 7;
                Tree tree = 8; repeated sint32 numbers = 9; repeated Part parts = 10;
                {late}
            }}
            message Place {{ {text} city = 1; int32 zip = 2; }}
            message Tree {{ {text} label = 1; Tree next = 2; }}
            message Part {{ {wide} }}
            message Run{self.token} {{ int32 unused = 1; }}
        """

    def key_schema(self) -> str:
        return 'syntax = "proto3"; message Key { int64 n = 1; }'

    @cached_property
    def _messages(self) -> dict[tuple[int, str], type[Any]]:
        """Also with bytes for strings: what these read, and the others do not, is no text."""
        kinds = [(version, text) for version in (1, 2, 3) for text in ("string", "bytes")]
        return {kind: message_class(self.schema(*kind), "Stay") for kind in kinds}

    def row(self, random: Random, version: int = 1) -> Row:
        numbers = random.choices(range(-100, 100), k=random.randrange(5))
        at = {"seconds": random.randrange(10**9, 2 * 10**9)}
        return super().row(random, version) | {"at": at, "numbers": numbers}

    def write(self, row: Row, version: int) -> bytes:
        message = self._messages[version, "string"](**row)
        return FIRST_MESSAGE + bytes(message.SerializeToString())

    def write_key(self, number: int) -> bytes:
        return FIRST_MESSAGE + b"\x08" + varint(number)

    def read(self, body: bytes, version: int) -> Row:
        if body[:2] == b"\x02\x00":  # also the first message, in full
            body = body[1:]
        if body[:1] != FIRST_MESSAGE:
            raise Bad(WRONG_INDEX)
        try:
            return _row(self._messages[version, "string"].FromString(body[1:]), version)
        except DecodeError:
            raise self._bad(body[1:], version) from None

    def _bad(self, content: bytes, version: int) -> Bad:
        try:
            self._messages[version, "bytes"].FromString(content)
        except DecodeError:
            # Where a string is also no text, a reader may have found that first.
            return Bad(MALFORMED, INVALID_UTF8)
        return Bad(INVALID_UTF8)

    def in_table(self, row: Row) -> Row:
        tree, parts = row["tree"], row["parts"]
        return row | {"tree": tree and json.loads(tree), "parts": len(parts)}

    def crafted(self) -> Mapping[str, Crafted]:
        def of(*choices: bytes, problem: str | None = MALFORMED) -> Crafted:
            return Crafted(problem, lambda random: FIRST_MESSAGE + random.choice(choices))

        def with_index(*indexes: bytes) -> Crafted:
            message = self.with_name("a")[1:]
            return Crafted(WRONG_INDEX, lambda random: random.choice(indexes) + message)

        lengths = (2**31 - 1, 2**31, 2**40, 2**62, 2**63, 2**64 - 1)
        no_text = (b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", b"\x80")
        return {
            "huge or negative length": of(*(NAME + varint(n) + b"abc" for n in lengths)),
            "endless number": of(b"\x08" + b"\xff" * 11, b"\xff" * 20, b"\x08" + b"\x80" * 500),
            "broken unknown field": of(
                varint(1 << 35 | 8) + b"\x05", varint(99 << 3 | 3) + varint(98 << 3 | 4)
            ),
            "field 0": of(b"\x00\x01", b"\x02\x00"),
            "array without its elements": of(*(NUMBERS + varint(n) + b"\x02" for n in lengths)),
            "number of another message": with_index(
                *(zigzag(1) + zigzag(n) for n in (1, 4, 99, -1, 2**31, -(2**62), 2**70)),
                *(zigzag(n) for n in (2**40, -1)),
                zigzag(2) + zigzag(0) + zigzag(0),
            ),
            "no text": of(*(NAME + _sized(text) for text in no_text), problem=INVALID_UTF8),
            "too deep": of(_tree(150), _tree(1000), _tree(5000)),
            "deep": of(_tree(50), problem=None),
        }

    def huge(self) -> Mapping[str, Crafted]:
        body = FIRST_MESSAGE + (PARTS + b"\x00") * TOO_MANY_PARTS
        return {"too many values": Crafted("too_many_values", lambda _: body)}


def _row(message: Any, version: int) -> Row:
    row: Row = {name: getattr(message, name) for name in ("id", "count", "amount", "name")}
    row |= {name: list(getattr(message, name)) for name in ("tags", "numbers")}
    place = {"city": message.place.city, "zip": message.place.zip}
    row["place"] = place if message.HasField("place") else None
    row["at"] = message.at.seconds * 10**6 if message.HasField("at") else None
    row["tree"] = MessageToDict(message.tree) if message.HasField("tree") else None
    row["parts"] = len(message.parts)
    late = added(version)
    return row | {n: getattr(message, n) if message.HasField(n) else None for n in late}


def _tree(levels: int) -> bytes:
    content = b""
    for _ in range(levels - 1):
        content = NEXT + _sized(content)
    return TREE + _sized(content)


def _sized(content: bytes) -> bytes:
    return varint(len(content)) + content
