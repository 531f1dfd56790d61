"""Good and bad records in one stream, each with what must become of it.

Damage at random may leave a record readable. So whatever is not wrong by its making is judged by the
format's own decoder, and then is a good record with that value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from random import Random

from tableflow_assets_tests.support.bad_records.format import Bad, Format, Row

MEGABYTES_10 = 10 * 10**6
NOBODYS_IDS = range(10**9, 2**31)
UNKNOWN, FOREIGN = "unknown_schema_id", "schema_of_another_subject"


@dataclass(frozen=True)
class Ids:
    """Of schemas. ``elsewhere`` and ``to_come`` are versions 2 and 3, not yet known for the topic."""

    key: int
    value: int
    elsewhere: int
    to_come: int
    foreign: int


@dataclass(frozen=True)
class Sent:
    """A record; ``row`` or one of ``classes`` must come of it, and ``later`` once all is registered."""

    kind: str
    key: bytes | None
    value: bytes | None
    number: int | None = None  # in its key
    row: Row | None = None
    classes: frozenset[str] = frozenset()
    later: Row | None = None


class Generator:
    def __init__(self, format_: Format, ids: Ids, seed: int) -> None:
        self.format, self.ids, self.random = format_, ids, Random(seed)  # noqa: S311
        self.crafted, self.huge = format_.crafted(), format_.huge()

    def records(self, bad: int) -> list[Sent]:
        """So many bad ones among ten times as many good ones, in any order."""
        made = [
            self._judged("10 MB", self._large()),
            self._judged("10 MB, cut", self._large()[:-1]),
        ]
        made += [self._craft(kind) for kind in self.huge]
        count = sum(record.row is None for record in made)
        for make in cycle(self._kinds()):
            if count == bad:
                break
            made.append(make())
            count += made[-1].row is None
        good = 10 * bad - (len(made) - count)
        made += [self._judged("good", self._good()) for _ in range(good)]
        self.random.shuffle(made)
        return made

    def _kinds(self) -> list[Callable[[], Sent]]:
        random, good = self.random, self._good

        def judged(kind: str, value: Callable[[], bytes | None]) -> Callable[[], Sent]:
            return lambda: self._judged(kind, value())

        def crafted(kind: str) -> Callable[[], Sent]:
            return lambda: self._craft(kind)

        def other_magic() -> bytes:
            return bytes([random.randrange(1, 256)]) + good()[1:]

        nobodys = [*random.sample(NOBODYS_IDS, 50), 2**32 - 1, 2**31, 0]
        return [
            *[judged("bit flipped", lambda: _flipped(good(), random))] * 4,
            judged("cut", lambda: _cut(good(), random)),
            judged("trailing bytes", lambda: good() + random.randbytes(random.randrange(1, 9))),
            judged("another magic byte", other_magic),
            judged("unknown id", lambda: self._good(random.choice(nobodys))),
            judged("id of another subject", lambda: self._good(self.ids.foreign)),
            judged("schema to come", lambda: self._good(self.ids.to_come, 3)),
            judged("schema known elsewhere", lambda: self._good(self.ids.elsewhere, 2)),
            judged("both", lambda: _cut(self._good(self.ids.to_come, 3), random, 5)),
            judged("null", lambda: None),
            judged("empty", lambda: b""),
            judged("header alone", lambda: good()[:5]),
            self._with_bad_key,
            *(crafted(kind) for kind in self.crafted),
        ]

    def _good(self, schema_id: int | None = None, version: int = 1) -> bytes:
        body = self.format.write(self.format.row(self.random, version), version)
        return _header(self.ids.value if schema_id is None else schema_id) + body

    def _large(self) -> bytes:
        letters = "".join(self.random.choices("abcdefg é", k=1000))
        return _header(self.ids.value) + self.format.with_name(letters * (MEGABYTES_10 // 1000))

    def _judged(self, kind: str, value: bytes | None) -> Sent:
        number = self.random.choice((None, self.random.randrange(10**6)))
        key = None if number is None else self._key(number)
        return self._judge(Sent(kind, key, value, number))

    def _judge(self, sent: Sent) -> Sent:
        try:
            return replace(sent, row=self._read(sent.value))
        except Bad as bad:
            return replace(sent, classes=bad.classes, later=self._later(sent.value))

    def _craft(self, kind: str) -> Sent:
        problem, body = {**self.crafted, **self.huge}[kind]
        value = _header(self.ids.value) + body(self.random)
        if kind in self.huge:
            return Sent(kind, None, value, classes=frozenset({problem or ""}))
        judged = self._judged(kind, value)
        # What is wrong by its making is so for the decoder too, which then is as strict as it should be.
        assert problem in judged.classes or (problem is None and judged.row), judged
        return replace(judged, classes=frozenset({problem}) if problem else frozenset())

    def _with_bad_key(self) -> Sent:
        """Whatever the value, it is the key that is looked at first."""
        key, malformed = self._key(self.random.randrange(10**6)), self.format.malformed
        key, problem = self.random.choice(
            [
                (key[:-1], f"key_{malformed}"),
                (b"\x01" + key[1:], "key_not_confluent_framed"),
                (b"plain", "key_not_confluent_framed"),
                (_header(self.random.choice(NOBODYS_IDS)) + key[5:], f"key_{UNKNOWN}"),
                (_header(self.ids.foreign) + key[5:], f"key_{FOREIGN}"),
                (b"", "key_empty"),
            ]
        )
        value = self.random.choice((self._good(), _cut(self._good(), self.random)))
        return Sent("bad key", key, value, classes=frozenset({problem}))

    def _key(self, number: int) -> bytes:
        return _header(self.ids.key) + self.format.write_key(number)

    def _read(self, value: bytes | None) -> Row:
        if value is None:
            raise Bad("null_value")
        if not value:
            raise Bad("empty")
        if len(value) < len(_header(0)) or value[0]:
            raise Bad("not_confluent_framed")
        schema_id = int.from_bytes(value[1:5], "big")
        if schema_id in (self.ids.foreign, self.ids.elsewhere):
            raise Bad(FOREIGN)
        if schema_id != self.ids.value:
            raise Bad(UNKNOWN)
        return self.format.read(value[5:], 1)

    def _later(self, value: bytes | None) -> Row | None:
        versions = {self.ids.elsewhere: 2, self.ids.to_come: 3}
        version = versions.get(int.from_bytes((value or b"")[1:5], "big"))
        if value is None or version is None or value[0]:
            return None
        try:
            return self.format.read(value[5:], version)
        except Bad:
            return None


def _header(schema_id: int) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big")


def _flipped(value: bytes, random: Random) -> bytes:
    """Not in the lower half of the id: that of some other schema might come out."""
    place = random.choice([*range(3), *range(5, len(value))])
    return value[:place] + bytes([value[place] ^ 1 << random.randrange(8)]) + value[place + 1 :]


def _cut(value: bytes, random: Random, at_least: int = 1) -> bytes:
    return value[: random.randrange(at_least, len(value))]
