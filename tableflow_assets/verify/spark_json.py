"""JSON as Spark's `to_json(parse_json(...))` writes it, from which a table hashes its keys.

Objects are sorted by name. A number in plain digits is exact, up to 38 of them; any other is a double.
"""

from __future__ import annotations

import base64
import json
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
from pyiceberg.types import (
    DateType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.verify.columns import JsonText
from tableflow_assets.verify.json_text import Fraction, read_json
from tableflow_assets.verify.readers import Unreadable

_LONG = 2**63
_MOST_DIGITS = 38
_LAST_PLAIN_YEAR = 9999
_PLAIN = re.compile(r"-?(\d*)(?:\.(\d*))?")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
_ESCAPES |= {"\t": "\\t"}
_TO_ESCAPE = re.compile(r'["\\\x00-\x1f]')
# Java writes numbers in this range without an exponent.
_PLAIN_FROM, _PLAIN_TO = -3, 7


def sorted_json(value: Any) -> bytes:
    """The JSON of a value from `read_json`."""
    try:
        return _text(value).encode(
            errors="replace"
        )  # half a surrogate pair becomes a question mark
    except RecursionError:
        raise Unreadable("too deep") from None


def json_identity(body: bytes) -> bytes:
    """For a key: as above, or its bytes if a number would be rounded or a property occurs twice."""
    value = read_json(body)
    return body if _is_lossy(body.decode()) else sorted_json(value)


def _is_lossy(text: str) -> bool:
    loss = _Loss()
    json.loads(text, object_pairs_hook=loss.object, parse_float=loss.number, parse_int=loss.number)
    return loss.has_occurred


class _Loss:
    has_occurred = False

    def number(self, text: str) -> None:
        is_double = len(text.lstrip("-")) > _MOST_DIGITS or "e" in text.lower()
        self.has_occurred = self.has_occurred or is_double

    def object(self, pairs: list[tuple[str, Any]]) -> None:
        self.has_occurred = self.has_occurred or len(dict(pairs)) < len(pairs)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        # By UTF-16 units, as Java compares strings.
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{_quoted(name)}:{_text(value[name])}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _number(value.text if isinstance(value, Fraction) else str(value))


def _quoted(text: str) -> str:
    def escaped(match: re.Match[str]) -> str:
        return _ESCAPES.get(match[0], f"\\u{ord(match[0]):04X}")

    return f'"{_TO_ESCAPE.sub(escaped, text)}"'


def _number(text: str) -> str:
    plain = _PLAIN.fullmatch(text)
    if plain is None:
        return java_number(float(text))
    whole, fraction = plain[1].lstrip("0"), plain[2] or ""
    digits = len((whole + fraction).lstrip("0"))
    is_long = "." not in text and -_LONG <= int(text) < _LONG
    if not is_long and (digits > _MOST_DIGITS or len(fraction) > _MOST_DIGITS):
        return java_number(float(text))
    fraction = fraction.rstrip("0")
    sign = "-" if text.startswith("-") and (whole or fraction) else ""
    return f"{sign}{whole or '0'}" + (f".{fraction}" if fraction else "")


def java_number(number: float | np.float32) -> str:
    """As Java's Double.toString and Float.toString: the shortest that reads back as the same."""
    if not math.isfinite(number):
        return '"NaN"' if math.isnan(number) else f'"{"-" if number < 0 else ""}Infinity"'
    sign, significant, exponent = Decimal(str(number)).as_tuple()
    digits = "".join(map(str, significant)).rstrip("0") or "0"
    point = 0 if digits == "0" else len(significant) + int(exponent)  # digits before it
    minus = "-" if sign else ""
    if digits == "0":
        return f"{minus}0.0"
    if not _PLAIN_FROM < point <= _PLAIN_TO:
        return f"{minus}{digits[0]}.{digits[1:] or '0'}E{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{digits}"
    return f"{minus}{digits[:point].ljust(point, '0')}.{digits[point:] or '0'}"


def json_of_column(value: Any, kind: IcebergType) -> Any:
    """A typed value as Spark's `to_json` writes it, without a struct's nulls."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        fields = {f.name: json_of_column(value[f.name], f.field_type) for f in kind.fields}
        return {name: inner for name, inner in fields.items() if inner is not None}
    if isinstance(kind, ListType):
        return [json_of_column(inner, kind.element_type) for inner in value]
    if isinstance(kind, MapType):
        return {str(key): json_of_column(inner, kind.value_type) for key, inner in value.items()}
    return _json_of_scalar(value, kind)


def _json_of_scalar(value: Any, kind: IcebergType) -> Any:
    if isinstance(kind, DateType | TimestampType | TimestamptzType):
        return _moment(value, kind)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return Fraction(str(value))
    if isinstance(value, float):
        text = java_number(np.float32(value) if isinstance(kind, FloatType) else value)
        return text.strip('"') if text.startswith('"') else Fraction(text)
    return value.exact_text if isinstance(value, JsonText) else value


def _moment(number: int, kind: IcebergType) -> str:
    """By numpy, which also has the years before 1 and after 9999; those are written with a sign."""
    text = str(np.datetime64(number, "D" if isinstance(kind, DateType) else "us"))
    at = text.index("-", 1)
    year, day_and_time = text[:at], text[at:]
    sign = "-" if year.startswith("-") else "+" if int(year) > _LAST_PLAIN_YEAR else ""
    utc = "Z" if isinstance(kind, TimestamptzType) else ""
    return f"{sign}{year.lstrip('-').zfill(4)}{day_and_time}{utc}"
