"""JSON with random damage: what Spark makes of it is what Python's reader, and plain rules, make of it.

`TABLEFLOW_DAMAGED=200000` looks at more documents than the 5,000 of a usual run.
"""

from __future__ import annotations

import json
import os
import random
import re
from typing import Any

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.decode.json.test_json import (
    BOOLEAN,
    INTEGER,
    MALFORMED,
    NUMBER,
    STRING,
    UNFIT,
    an_object,
    decoded,
    framed,
    with_schema,
)

SCHEMA = an_object(
    whole=INTEGER,
    number=NUMBER,
    yes=BOOLEAN,
    text=STRING,
    texts={"type": "array", "items": STRING},
    counts={"additionalProperties": INTEGER},
    inner=an_object(whole=INTEGER, text=STRING),
    any={},
)
DOCUMENTS = [
    '{"whole": 12, "number": -1.5e3, "yes": true, "text": "a\\u00e9\\n", "texts": ["x", null]}',
    '{"text":"é😀\\ud83d\\ude00","counts":{"a":1,"b.c":-20},"inner":{"whole":3.0,"text":"y"}}',
    '{"inner": {"text": "\\\\u", "other": [1, {"z": 1e5}]}, "any": {"b": [true, "q"], "a": 0.25}}',
    ' {"yes":false,"unknown":"\\ud83d\\ude00","texts":[],"number":12345678901234567890,"any":null}\n',
]
PIECES = [
    *(b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"\\u", b"\\ud83d", b"\\ude00", b" ", b"\t"),
    *(b"0", b"1", b".", b"e", b"E", b"+", b"-", b"t", b"null", b"true", b"NaN", b"1e999", b"\n"),
    *(b"\0", b"\x1f", b"\x7f", b"\xc3", b"\xe9", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f"),
    *(b'"whole":', b'"text":', b'"any":', b"/**/", b"'"),
]
TOKEN = re.compile(rb'-?\d[\d.eE+]*|true|false|null|"[^"]*"')
OTHERS = [
    *(b"5", b"2.0", b"1.5", b"1e3", b"1e999", b"99999999999999999999", b"true", b"null", b'"5"'),
    *(b'""', b'"\\ud800"', b"{}", b"[]", b'{"a":1,"a":2}', b'["x"]', b"[1]", b'{"whole":"x"}'),
]
FAR = 2**63


class Pairs(list[tuple[str, Any]]):
    """An object as it is written: also with a name that comes twice."""


class WithPoint(str):
    """The text of a number that has a point or an exponent."""


class NoJson(Exception):
    pass


def damaged(chance: random.Random) -> bytes:
    document = bytearray(chance.choice(DOCUMENTS).encode())
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        if chance.random() < 0.5:
            token = chance.choice(list(TOKEN.finditer(document)) or [None])
            at, to = token.span() if token else (0, 0)
            new = chance.choice(OTHERS)
        else:
            at = chance.randrange(len(document) + 1)
            to = at + chance.choice([0, 0, 1, 1, 2, 8])
            new = chance.choice([b"", chance.choice(PIECES), bytes([chance.randrange(256)])])
        document[at:to] = new
    return bytes(document)


def as_written(text: str) -> Any:
    def refuse(_: str) -> Any:
        raise NoJson

    try:
        return json.loads(
            text, object_pairs_hook=Pairs, parse_float=WithPoint, parse_constant=refuse
        )
    except ValueError:
        raise NoJson from None


def is_whole(value: Any) -> bool:
    if isinstance(value, WithPoint):
        whole, _, fraction = value.partition(".")
        return not whole.lower().count("e") and not fraction.strip("0") and is_whole(int(whole))
    return type(value) is int and -FAR <= value < FAR


def is_finite(value: Any) -> bool:
    return abs(float(value)) != float("inf")


def fits(value: Any, schema: Any) -> bool:
    if value is None:
        return True
    if "properties" in schema:
        properties = schema["properties"]
        return isinstance(value, Pairs) and all(
            fits(inner, properties[key]) for key, inner in value if key in properties
        )
    if "additionalProperties" in schema:
        return has_no_name_twice(value) and all(
            fits(inner, schema["additionalProperties"]) for _, inner in value
        )
    if "items" in schema:
        is_list = isinstance(value, list) and not isinstance(value, Pairs)
        return is_list and all(fits(inner, schema["items"]) for inner in value)
    if not schema:
        return fits_anything(value)
    is_number = isinstance(value, WithPoint) or type(value) is int
    return {
        "integer": is_whole(value),
        "number": is_number and is_finite(value),
        "boolean": isinstance(value, bool),
        "string": type(value) is str,
    }[schema["type"]]


def has_no_name_twice(value: Any) -> bool:
    return isinstance(value, Pairs) and len(dict(value)) == len(value)


def fits_anything(value: Any) -> bool:
    if isinstance(value, Pairs):
        return has_no_name_twice(value) and all(fits_anything(inner) for _, inner in value)
    if isinstance(value, list):
        return all(fits_anything(inner) for inner in value)
    is_number = isinstance(value, WithPoint) or type(value) is int
    return not is_number or is_finite(value)


def has_half_a_character(value: Any) -> bool:
    if isinstance(value, list):  # of elements, or of names with values
        return any(has_half_a_character(inner) for inner in value)
    if isinstance(value, tuple):
        return has_half_a_character(list(value))
    return isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value)


def expected_problem(body: bytes) -> str | None:
    try:
        value = as_written(body.decode())
    except UnicodeDecodeError:
        return "invalid_utf8"
    except NoJson:
        return MALFORMED
    if value is None or not fits(value, SCHEMA):
        return UNFIT
    return "invalid_utf8" if has_half_a_character(value) else None


def expected_value(value: Any, schema: Any) -> Any:
    """For what fits; of JSON text, only whether there is any."""
    if value is None:
        return None
    if "properties" in schema:
        last = dict(value)
        return [expected_value(last.get(key), of) for key, of in schema["properties"].items()]
    if "additionalProperties" in schema:
        return {key: expected_value(each, schema["additionalProperties"]) for key, each in value}
    if "items" in schema:
        return [expected_value(each, schema["items"]) for each in value]
    kinds = {"integer": lambda: int(float(value)), "number": lambda: float(value)}
    return kinds.get(schema.get("type"), lambda: value if schema else "some")()


def found_value(value: Any, schema: Any) -> Any:
    if value is None:
        return None
    if "properties" in schema:
        return [
            found_value(each, of)
            for each, of in zip(value, schema["properties"].values(), strict=True)
        ]
    return value if schema else "some"


def test_damaged_json_is_what_another_reader_says(tableflow: Tableflow) -> None:
    chance = random.Random(11)  # noqa: S311
    count = int(os.environ.get("TABLEFLOW_DAMAGED", "5000"))
    bodies = [text.encode() for text in DOCUMENTS] + [damaged(chance) for _ in range(count)]
    rows = decoded(tableflow, with_schema(SCHEMA), [framed(body) for body in bodies])
    problems: dict[str | None, int] = {}
    for body, row in zip(bodies, rows, strict=True):
        problem = expected_problem(body)
        problems[problem] = problems.get(problem, 0) + 1
        assert row.problem == problem, body
        if problem is None:
            expected = expected_value(as_written(body.decode()), SCHEMA)
            assert found_value(row.row, SCHEMA) == expected, body
    assert min(problems[each] for each in (None, MALFORMED, UNFIT, "invalid_utf8")) > count / 50
