"""What the generator needs of a serialization: its schemas, its bytes, and a decoder of its own.

Version 1 of each schema is the topic's; 2 and 3 add a field each, and are for records that come before
their schema is registered. No decoder here shares anything with the library's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

INVALID_UTF8 = "invalid_utf8"
ADDED = {2: "note", 3: "remark"}  # the field that a version adds
Row = dict[str, Any]


class Bad(Exception):
    """The bytes are no row; ``classes``: what may be said about them."""

    def __init__(self, *classes: str) -> None:
        self.classes = frozenset(classes)
        super().__init__(*classes)


class Crafted(NamedTuple):
    """A body that is wrong in one particular way, which must get this class; None: it is good."""

    problem: str | None
    body: Callable[[Random], bytes]


class Format(ABC):
    kind: str
    malformed: str  # the class of most damage

    def __init__(self, token: str) -> None:
        """``token``: makes the schemas others than those of every other run."""
        self.token = token

    @abstractmethod
    def schema(self, version: int) -> Any: ...

    @abstractmethod
    def key_schema(self) -> Any: ...

    @abstractmethod
    def write(self, row: Row, version: int) -> bytes:
        """All that follows the schema's id."""

    @abstractmethod
    def write_key(self, number: int) -> bytes: ...

    @abstractmethod
    def read(self, body: bytes, version: int) -> Row:
        """The row as the table should have it, or ``Bad``."""

    @abstractmethod
    def crafted(self) -> Mapping[str, Crafted]:
        """By name: the damage that this serialization alone knows."""

    def huge(self) -> Mapping[str, Crafted]:
        """The same, for records so large that one of each is enough."""
        return {}

    def in_table(self, row: Row) -> Row:
        """A row of the table as ``read`` would have it."""
        return row

    def row(self, random: Random, version: int = 1) -> Row:
        row: Row = {
            "id": random.randrange(-(2**63), 2**63),
            "count": random.choice((0, -1, 63, 2**31 - 1, random.randrange(-(2**31), 2**31))),
            "amount": random.choice((0.0, -0.5, random.uniform(-1e9, 1e9))),
            "name": "".join(random.choices('abcé 🚂\\"', k=random.randrange(12))),
            "tags": random.choices(["", "a", "größe", "x" * 70], k=random.randrange(4)),
            "place": {"city": random.choice(("Zoë", "")), "zip": random.randrange(100_000)},
        }
        return row | {name: f"a {name}" for name in added(version)}

    def with_name(self, name: str) -> bytes:
        return self.write(self.row(Random(0)) | {"name": name}, 1)  # noqa: S311


def added(version: int) -> list[str]:
    return [ADDED[n] for n in range(2, version + 1)]


def varint(number: int) -> bytes:
    """Of any size: also larger than a reader takes."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def zigzag(number: int) -> bytes:
    return varint(2 * number if number >= 0 else -2 * number - 1)
