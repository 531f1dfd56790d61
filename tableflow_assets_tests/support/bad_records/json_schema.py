"""JSON, read by Python's own library, and fitted to the schema by the letter."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from random import Random
from typing import Any

from tableflow_assets_tests.support.bad_records.format import (
    INVALID_UTF8,
    Bad,
    Crafted,
    Format,
    Row,
    added,
)

MALFORMED, MISFIT = "malformed_json", "json_does_not_fit_schema"


class JsonFormat(Format):
    kind, malformed = "JSON", MALFORMED

    def schema(self, version: int) -> Any:
        text, whole = {"type": "string"}, {"type": "integer"}
        int32 = whole | {"connect.type": "int32"}
        properties = {
            "id": whole,
            "count": int32,
            "amount": {"type": "number"},
            "name": text,
            "tags": {"type": "array", "items": text},
            "place": {"type": "object", "properties": {"city": text, "zip": int32}},
            "more": {},
        }
        late = dict.fromkeys(added(version), text)
        return {"type": "object", "title": self.token, "properties": properties | late}

    def key_schema(self) -> Any:
        return {"type": "object", "properties": {"n": {"type": "integer"}}}

    def write(self, row: Row, version: int) -> bytes:
        return json.dumps(row, ensure_ascii=row["count"] % 2 == 0).encode()

    def write_key(self, number: int) -> bytes:
        return json.dumps({"n": number}).encode()

    def read(self, body: bytes, version: int) -> Row:
        try:
            text = body.decode()
        except UnicodeDecodeError:
            raise Bad(INVALID_UTF8) from None
        try:
            found = json.loads(text, parse_constant=_refuse, parse_float=_Fraction)
        except (ValueError, RecursionError):
            raise Bad(MALFORMED) from None
        try:
            row = _fitted(found, version)
        except (TypeError, ValueError, OverflowError):
            raise Bad(MISFIT) from None
        if any("\ud800" <= letter <= "\udfff" for letter in json.dumps(found, ensure_ascii=False)):
            raise Bad(INVALID_UTF8)
        return row

    def in_table(self, row: Row) -> Row:
        return row | {"more": row["more"] and json.loads(row["more"])}

    def crafted(self) -> Mapping[str, Crafted]:
        def of(*choices: str, problem: str | None = MISFIT) -> Crafted:
            return Crafted(problem, lambda random: random.choice(choices).encode())

        def no_text(random: Random) -> bytes:
            bad = random.choice((b"\xff\xfe", b"\xc0\x80", b"\xed\xa0\x80", rb"\ud83d", rb"\udead"))
            return b'{"id": 1, "name": "' + bad + b'"}'

        return {
            "number out of range": of(
                *(f'{{"id": {n}}}' for n in (2**63, -(2**63) - 1, 10**400)),
                *(f'{{"count": {n}}}' for n in (2**31, -(2**31) - 1, 10**400)),
                *(f'{{"amount": {n}}}' for n in ("1e999", "-1e999", "9" * 400)),
            ),
            "another type": of(
                *('{"id": "1"}', '{"id": 1.5}', '{"name": 1}', '{"tags": {}}', '{"place": []}'),
                *("[]", "null", "1", '"text"', '{"tags": ["a", 1]}', '{"count": true}'),
            ),
            "no json": of(
                *("{", "}", "{'id': 1}", '{"id": 01}', '{"amount": NaN}', "{} {}", '{"id": 1},'),
                *('{"id": 1} // a', "{id: 1}", '{"name": "a\nb"}', r'{"name": "\x"}', "]}", ""),
                problem=MALFORMED,
            ),
            "no text": Crafted(INVALID_UTF8, no_text),
            "deep where there should be text": of('{"name": ' + _nested(100) + "}"),
            "too deep": of('{"more": ' + _nested(5000) + "}", "[" * 5000, problem=MALFORMED),
            "deep": of('{"more": ' + _nested(100) + "}", problem=None),
            "array of others": of(json.dumps({"tags": [0] * 30_000})),
        }


class _Fraction(str):
    """A number with a fraction or an exponent, as it is written."""


def _refuse(text: str) -> Any:
    raise ValueError(text)


def _nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def _fitted(found: Any, version: int) -> Row:
    if not isinstance(found, dict):
        raise TypeError
    tags, place = found.get("tags"), found.get("place")
    if not isinstance(tags, list | None) or not isinstance(place, dict | None):
        raise TypeError
    inner = place or {}
    return {
        "id": _whole(found.get("id"), 64),
        "count": _whole(found.get("count"), 32),
        "amount": _number(found.get("amount")),
        "name": _string(found.get("name")),
        "tags": None if tags is None else [_string(tag) for tag in tags],
        "place": None
        if place is None
        else {"city": _string(inner.get("city")), "zip": _whole(inner.get("zip"), 32)},
        "more": found.get("more"),
    } | {name: _string(found.get(name)) for name in added(version)}


def _whole(value: Any, bits: int) -> int | None:
    if isinstance(value, _Fraction):
        whole, _, fraction = value.partition(".")
        if fraction.strip("0"):
            raise ValueError
        value = int(whole)
    if value is None:
        return None
    if type(value) is not int or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError
    return value


def _number(value: Any) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, _Fraction):
        raise TypeError
    if not math.isfinite(number := float(value)):
        raise OverflowError
    return number


def _string(value: Any) -> str | None:
    if value is not None and type(value) is not str:
        raise TypeError
    return value
