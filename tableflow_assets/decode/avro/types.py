"""An Avro schema as a graph of types, in which every name is resolved."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tableflow_assets.decode.columns import ColumnBuilder, Path

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "enum", "fixed")
LARGEST_PRECISION = 38
TEXT = "text"  # not an Avro type: JSON text, in place of a type that no column can have

# Avro says to ignore unknown logical types, so all others are dropped.
_LOGICAL_TYPES = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        "timestamp-millis",
        "timestamp-micros",
        "local-timestamp-millis",
        "local-timestamp-micros",
    ),
    "bytes": ("decimal",),
    "fixed": ("decimal",),
}


@dataclass(eq=False)
class AvroType:
    """A type of one version, or of several merged ones. Parts may lead back to the type itself."""

    kind: str
    name: str = ""  # the full name, if it has one
    attributes: dict[str, Any] = field(default_factory=dict)
    parts: dict[str, AvroType] = field(default_factory=dict)  # fields, element, value or branches
    docs: dict[str, str | None] = field(default_factory=dict)

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2] or self.kind

    @property
    def identity(self) -> str:
        """What distinguishes it from the other branches of a union."""
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def logical(self) -> str:
        return str(self.attributes.get("logicalType", ""))

    @property
    def branches(self) -> list[AvroType]:
        """The types that a non-null value can have."""
        parts = self.parts.values() if self.kind == "union" else [self]
        return [part for part in parts if part.kind != "null"]

    @property
    def holds_nothing(self) -> bool:
        """Whether all its values are alike: null, or a record of nothing else. Not before it is merged,
        because before that it may contain itself.
        """
        branches = self.branches
        return not branches or (
            len(branches) == 1
            and branches[0].kind == "record"
            and all(part.holds_nothing for part in branches[0].parts.values())
        )


@dataclass(eq=False)
class AvroVersion:
    """One version's schema, and its named types by their full names."""

    root: AvroType
    named: dict[str, AvroType]


def parsed(text: str, references: Mapping[str, str], errors: ColumnBuilder) -> AvroVersion:
    parser = _Parser(references, errors)
    try:
        return AvroVersion(parser.type_of(json.loads(text), "", ()), parser.named)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise errors.unsupported((), f"its schema is not valid Avro ({error!r})") from error


def decimal_problem(kind: AvroType) -> str:
    """Why it is not a valid decimal; empty if it is one."""
    precision, scale = kind.attributes.get("precision"), kind.attributes.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or precision < 1:
        return "a decimal needs a precision, a whole number"
    if precision > LARGEST_PRECISION:
        return f"a decimal has at most {LARGEST_PRECISION} digits"
    if not 0 <= scale <= precision:
        return f"a decimal of {precision} digits cannot have {scale} of them after the point"
    size = min(kind.attributes.get("size", LARGEST_PRECISION), LARGEST_PRECISION)  # bytes
    if 10**precision > 2 ** (8 * size - 1):
        return f"its bytes cannot hold {precision} digits"
    return ""


class _Parser:
    def __init__(self, references: Mapping[str, str], errors: ColumnBuilder) -> None:
        self.named: dict[str, AvroType] = {}
        self._references = dict(references)
        self._errors = errors

    def type_of(self, avro: Any, outer_namespace: str, path: Path) -> AvroType:
        """``outer_namespace``: that of the enclosing type."""
        match avro:
            case list():
                branches = [self.type_of(branch, outer_namespace, path) for branch in avro]
                return AvroType(
                    "union", parts=_distinct((branch.identity, branch) for branch in branches)
                )
            case str():
                return self._by_name(avro, outer_namespace, path)
            case {"type": dict() | list() as inner}:
                return self.type_of(inner, outer_namespace, path)
            case _:
                return self._complex(avro, outer_namespace, path)

    def _complex(self, avro: dict[str, Any], outer_namespace: str, path: Path) -> AvroType:
        match avro:
            case {"type": "array"}:
                element = self.type_of(avro["items"], outer_namespace, (*path, "element"))
                return AvroType("array", parts={"element": element})
            case {"type": "map"}:
                value = self.type_of(avro["values"], outer_namespace, (*path, "value"))
                return AvroType("map", parts={"value": value})
            case {"type": "record" | "error" | "enum" | "fixed"}:
                return self._definition(avro, outer_namespace, path)
            case {"type": kind} if kind in PRIMITIVES:
                return AvroType(kind, attributes=_logical(avro))
            case _:
                return self._by_name(avro["type"], outer_namespace, path)

    def _by_name(self, name: str, outer_namespace: str, path: Path) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        for full in (_full_name(name, outer_namespace), name):
            if full not in self.named:
                self._read_reference(full)
            if full in self.named:
                return self.named[full]
        raise self._errors.unsupported(path, f"the type {name!r} has no place in a table")

    def _read_reference(self, name: str) -> None:
        """Only when needed: references may use one another, in any order."""
        # The registry may list a schema under another name than that of the type in it.
        for key in (name, *sorted(self._references)):
            if name not in self.named and key in self._references:
                self.type_of(json.loads(self._references.pop(key)), "", ())

    def _definition(self, avro: dict[str, Any], outer_namespace: str, path: Path) -> AvroType:
        name = _full_name(avro["name"], avro.get("namespace", outer_namespace))
        kind = "record" if avro["type"] == "error" else avro["type"]
        definition = self.named[name] = AvroType(kind, name)  # first: its fields may refer to it
        if kind == "enum":
            definition.attributes = {"symbols": list(avro["symbols"])}
        elif kind == "fixed":
            definition.attributes = {"size": int(avro["size"]), **_logical(avro)}
        else:
            namespace = name.rpartition(".")[0]
            definition.parts = _distinct(
                (part["name"], self.type_of(part["type"], namespace, (*path, part["name"])))
                for part in avro["fields"]
            )
            definition.docs = {part["name"]: part.get("doc") for part in avro["fields"]}
        return definition


def _full_name(name: str, outer_namespace: str | None) -> str:
    """Avro's rule: a name with dots is complete; others take the nearest namespace."""
    return name if "." in name or not outer_namespace else f"{outer_namespace}.{name}"


def _logical(avro: dict[str, Any]) -> dict[str, Any]:
    if avro.get("logicalType") not in _LOGICAL_TYPES.get(avro["type"], ()):
        return {}
    names = ("logicalType", "precision", "scale")
    return {name: avro[name] for name in names if name in avro}


def _distinct(parts: Iterable[tuple[str, AvroType]]) -> dict[str, AvroType]:
    distinct: dict[str, AvroType] = {}
    for name, part in parts:
        if name in distinct:
            raise ValueError(f"{name} twice")
        distinct[name] = part
    return distinct
