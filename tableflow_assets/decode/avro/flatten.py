"""Avro records with recursive types: values of those become JSON text.

Everything else is copied byte by byte, so that no value changes on the way. We read Avro's encoding
ourselves: fastavro would crash the whole process on a record nested a few thousand levels deep, and
does not say which branch of a union a number was written as.
"""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tableflow_assets.decode.avro.merge import counterpart
from tableflow_assets.decode.avro.types import TEXT, AvroType, decimal_problem

# Levels of nesting in JSON text: few enough for Python's stack, wherever this is called from.
DEEPEST = 500

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_LONG_BYTES, _INT_BYTES = 10, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Malformed(ValueError):
    pass


def flattened(body: bytes, writer: AvroType, merged: AvroType) -> bytes | None:
    reading, out = _Reading(body), bytearray()
    try:
        reading.copy(writer, merged, out)
    except (ValueError, RecursionError):
        return None
    return bytes(out) if reading.at == len(body) else None


class _Reading:
    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def copy(self, writer: AvroType, merged: AvroType | None, out: bytearray) -> None:
        if merged is not None and merged.kind == TEXT:
            out += _text(self.value(writer))
        elif writer.kind == "union":
            index, branch = self._branch(writer)
            out += _long(index)
            self.copy(branch, merged, out)
        else:
            self._copy_value(writer, counterpart(writer, merged), out)

    def _copy_value(self, writer: AvroType, merged: AvroType | None, out: bytearray) -> None:
        merged_parts = merged.parts if merged else {}
        if writer.kind == "record":
            for name, part in writer.parts.items():
                self.copy(part, merged_parts.get(name), out)
        elif writer.kind in ("array", "map"):
            [(name, element)] = writer.parts.items()
            for count in self._blocks():
                out += _long(count)  # without the block's size in bytes, which may have changed
                for _ in range(count):
                    if writer.kind == "map":
                        self.copy(AvroType("string"), None, out)
                    self.copy(element, merged_parts.get(name), out)
            out += _long(0)
        else:
            start = self.at
            self._scalar(writer)
            out += self.body[start : self.at]

    def value(self, writer: AvroType, depth: int = 0) -> Any:
        """The next value, as it goes into JSON."""
        if depth > DEEPEST:
            raise _Malformed("too deep")
        match writer.kind:
            case "union":
                return self.value(self._branch(writer)[1], depth + 1)
            case "record":
                record = {}
                for name, part in writer.parts.items():
                    record[name] = self.value(part, depth + 1)
                return record
            case "array":
                elements = []
                for count in self._blocks():
                    for _ in range(count):
                        elements.append(self.value(writer.parts["element"], depth + 1))
                return elements
            case "map":
                entries = {}
                for count in self._blocks():
                    for _ in range(count):
                        key = self._sized().decode()
                        entries[key] = self.value(writer.parts["value"], depth + 1)
                return entries
            case _:
                return _json_value(writer, self._scalar(writer))

    def _scalar(self, writer: AvroType) -> Any:
        if writer.kind in ("int", "enum"):
            return self._int()
        if writer.kind == "long":
            return self._long()
        if writer.kind in ("string", "bytes"):
            return self._sized()
        return self._take(
            writer.attributes["size"] if writer.kind == "fixed" else _SIZES[writer.kind]
        )

    def _branch(self, union: AvroType) -> tuple[int, AvroType]:
        index = self._int()
        if not 0 <= index < len(union.parts):
            raise _Malformed("no such branch")
        return index, list(union.parts.values())[index]

    def _blocks(self) -> Iterator[int]:
        while count := self._long():
            if count < 0:
                count = -count
                self._long()  # the block's size
            if count > len(self.body) - self.at:
                raise _Malformed("more elements than bytes")
            yield count

    def _sized(self) -> bytes:
        return self._take(self._long())

    def _take(self, size: int) -> bytes:
        start, self.at = self.at, self.at + size
        if size < 0 or self.at > len(self.body):
            raise _Malformed("too short")
        return self.body[start : self.at]

    def _long(self) -> int:
        return _signed(self._varint(_LONG_BYTES))

    def _int(self) -> int:
        return _signed(
            self._varint(_INT_BYTES) & 0xFFFFFFFF
        )  # a damaged one as Avro's own reader has it

    def _varint(self, most_bytes: int) -> int:
        number = 0
        for position in range(most_bytes):
            [byte] = self._take(1)
            number |= (byte & 0x7F) << (7 * position)
            if not byte & 0x80:
                return number
        raise _Malformed("a number of too many bytes")


def _signed(zigzag: int) -> int:
    return (zigzag >> 1) ^ -(zigzag & 1)


def _long(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:  # noqa: PLR2004
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _text(value: Any) -> bytes:
    """Encoded as the union of null and string."""
    if value is None:
        return _long(0)
    text = json.dumps(value, ensure_ascii=False).encode()
    return _long(1) + _long(len(text)) + text


def _json_value(writer: AvroType, raw: Any) -> Any:
    if writer.logical == "decimal":
        return _base64(raw) if decimal_problem(writer) else _decimal(writer, raw)
    if writer.logical:
        return _moment(writer.logical, raw)
    if writer.kind == "enum":
        symbols = writer.attributes["symbols"]
        if not 0 <= raw < len(symbols):
            raise _Malformed("no such symbol")
        return symbols[raw]
    return _JSON_VALUES[writer.kind](raw)


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _finite(number: float) -> float | str:
    return number if math.isfinite(number) else json.dumps(number)  # a string: JSON has no NaN


_JSON_VALUES: dict[str, Callable[[Any], Any]] = {
    "null": lambda raw: None,
    "boolean": lambda raw: raw == b"\x01",
    "int": lambda raw: raw,
    "long": lambda raw: raw,
    "float": lambda raw: _finite(*struct.unpack("<f", raw)),
    "double": lambda raw: _finite(*struct.unpack("<d", raw)),
    "string": bytes.decode,
    "bytes": _base64,
    "fixed": _base64,
}


def _decimal(writer: AvroType, raw: bytes) -> str:
    unscaled = int.from_bytes(raw, "big", signed=True)
    scale = writer.attributes.get("scale", 0)
    digits = tuple(map(int, str(abs(unscaled))))
    # Built from its digits: arithmetic would round to the precision of Python's context.
    return format(Decimal((int(unscaled < 0), digits, -scale)), "f")


def _moment(logical: str, number: int) -> str | int:
    try:
        if logical == "date":
            return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
        unit = (
            timedelta(milliseconds=1) if logical.endswith("millis") else timedelta(microseconds=1)
        )
        moment = _EPOCH + number * unit
    except OverflowError:
        return number  # beyond Python's calendar
    if logical.startswith("time-"):
        return moment.time().isoformat()
    return (moment.replace(tzinfo=None) if logical.startswith("local") else moment).isoformat()
