"""All versions of a subject's Avro schema as one shape, into which records of each are read.

Every record is decoded with the schema that it was written with (``writer``) into the merge of all
versions (``reader``): a field that its version lacks is NULL, never a default, so that a row does not
depend on when it was read. Fields are matched by name alone: Avro's aliases would move the values of
old records to another column.

| Avro                                | Iceberg                              |
|-------------------------------------|--------------------------------------|
| boolean, int, long, float, double   | the same                             |
| string, enum, uuid                  | string                               |
| bytes, fixed, duration              | binary                               |
| decimal                             | decimal(precision, scale)            |
| date                                | date                                 |
| timestamp-millis, -micros           | timestamptz                          |
| local-timestamp-millis, -micros     | timestamp                            |
| time-millis / time-micros           | int / long                           |
| array, map, record                  | list, map, struct                    |
| [null, X]                           | X                                    |
| [int, long] / [float, double]       | long / double                        |
| [X, Y]                              | struct of member_X, member_Y         |
| a record that contains itself, or   | string: JSON text                    |
| a union [X, Y] with such a record   |                                      |
| a field that can only be null       | none                                 |

A record of which no field is left can only be one value, too: a field of such a type is left out as well.
So these fields can become anything later. Elements of a list and values of a map are not left out, because
their number and keys would go with them: where they can only be null they are a string, always NULL; where
they can only be one record, its JSON text; and so is a whole union with such a record.

The columns are those that Spark 4.1's ``from_avro`` makes of ``reader``, with the option
``enableStableIdentifiersForUnionType``. This relies on the following: null is taken out of a union first;
a single remaining type stands for itself; exactly int and long, or float and double, by their plain
types, are one number; any other union is a struct with a field for each type, in their order, called
``member_`` and the type's name without its namespace, *in the case it is written in*; names that differ
only in case are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from pyiceberg.types import (
    DecimalType,
    DoubleType,
    IcebergType,
    LongType,
    NestedField,
)

from tableflow_assets.decode.avro.flatten import flattened
from tableflow_assets.decode.avro.merge import MEMBER, counterpart, merged
from tableflow_assets.decode.avro.types import TEXT, AvroType, decimal_problem, parsed
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.type_mapping import AVRO, AVRO_LOGICAL

END_BYTES = 16  # of the marker after the value, which shows that it had the right length

_TEXT_SCHEMA = ["null", "string"]


class AvroSchemas:
    """The schemas of one subject, oldest first; each with those that it refers to, by name."""

    def __init__(
        self, subject: str, texts: Sequence[str], references: Sequence[Mapping[str, str]]
    ) -> None:
        errors = ColumnBuilder(subject)
        self.subject = subject
        self.versions = [
            parsed(text, referenced, errors)
            for text, referenced in zip(texts, references, strict=True)
        ]
        self.merged = merged(self.versions, errors)

    @property
    def is_record(self) -> bool:
        return _is_record(self.merged)

    @property
    def holds_nothing(self) -> bool:
        return self.merged.holds_nothing

    def left_out(self) -> list[Path]:
        """The fields without a column: those that can only be null."""
        return list(_left_out(self.merged, ()))

    def columns(self, builder: ColumnBuilder) -> list[NestedField]:
        """The fields of a record."""
        fields = _fields(self.merged.branches[0], (), builder)
        return list(builder.struct(fields, ()).fields) if fields else []

    def type(self, builder: ColumnBuilder) -> IcebergType:
        if not self.is_record and any(_is_record(version.root) for version in self.versions):
            raise builder.unsupported((), "it is a record in one version, and something else")
        if self.holds_nothing:
            return AVRO["null"]
        return _iceberg(self.merged, (), builder)

    @cached_property
    def reader(self) -> str:
        return _framed(_nullable(_read(self.merged)), default=None)

    @property
    def has_text(self) -> bool:
        """If so, records must be flattened and read with the flattened writer's schema."""
        return _has_text(self.merged)

    def writer(self, index: int) -> str:
        return _framed(_Writer(flat=False).schema(self.versions[index].root, self.merged))

    def flattened_writer(self, index: int) -> str:
        return _framed(_Writer(flat=True).schema(self.versions[index].root, self.merged))


def flatten(body: bytes, schemas: AvroSchemas, index: int) -> bytes | None:
    """The same value for the flattened writer's schema; None if it is not a value of that version."""
    return flattened(body, schemas.versions[index].root, schemas.merged)


def _is_record(root: AvroType) -> bool:
    """A nullable record counts, too."""
    return [branch.kind for branch in root.branches] == ["record"]


def _framed(value: Any, **attributes: Any) -> str:
    end = {"type": "fixed", "name": "tableflow.End", "size": END_BYTES}
    fields = [{"name": "value", "type": value, **attributes}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "tableflow.Framed", "fields": fields})


def _read(kind: AvroType) -> Any:
    if kind.kind == TEXT:
        return _TEXT_SCHEMA
    if kind.kind == "null":
        return _TEXT_SCHEMA  # a column needs some type
    if kind.kind == "union":
        return ["null" if part.kind == "null" else _read(part) for part in kind.parts.values()]
    parts = {name: _read(part) for name, part in kind.parts.items()}
    if kind.kind == "record":
        kept = _kept(kind)
        parts = {name: _nullable(part) for name, part in parts.items() if name in kept}
    return _schema(kind, kind.name, parts, default=None)


def _nullable(avro: Any) -> Any:
    branches = avro if isinstance(avro, list) else [avro]
    return ["null", *(branch for branch in branches if branch != "null")]


def _schema(kind: AvroType, name: str, parts: dict[str, Any], **of_fields: Any) -> Any:
    """Names are always given a namespace: otherwise they would inherit the enclosing type's."""
    match kind.kind:
        case "record":
            fields = [{"name": part, "type": parts[part], **of_fields} for part in parts]
            return {"type": "record", "name": name, "fields": fields}
        case "array":
            return {"type": "array", "items": parts["element"]}
        case "map":
            return {"type": "map", "values": parts["value"]}
        case "enum" | "fixed":
            return {"type": kind.kind, "name": name, **kind.attributes}
        case _:
            return {"type": kind.kind, **kind.attributes} if kind.attributes else kind.kind


class _Writer:
    """One version's schema with the names of the merged types: the encoding contains no names."""

    def __init__(self, flat: bool) -> None:
        self._flat = flat
        self._written: set[str] = set()

    def schema(self, kind: AvroType, merged: AvroType | None) -> Any:
        if merged is not None and merged.kind == TEXT:
            if self._flat:
                return _TEXT_SCHEMA
            merged = None
        if kind.kind == "union":
            return [self.schema(part, merged) for part in kind.parts.values()]
        merged = counterpart(kind, merged)
        name = merged.name if merged else f"tableflow.original.{kind.name}"
        if name in self._written:
            return name
        if kind.name:
            self._written.add(name)
        counterparts = merged.parts if merged else {}
        parts = {part: self.schema(kind.parts[part], counterparts.get(part)) for part in kind.parts}
        return _schema(kind, name, parts)


def _has_text(kind: AvroType) -> bool:
    return kind.kind == TEXT or any(map(_has_text, kind.parts.values()))


def _fields(kind: AvroType, path: Path, builder: ColumnBuilder) -> list[NestedField]:
    return [
        builder.field(name, _iceberg(part, (*path, name), builder), kind.docs.get(name))
        for name, part in _kept(kind).items()
    ]


def _kept(record: AvroType) -> dict[str, AvroType]:
    """The fields that have a column. The others get one when a version gives them another type."""
    return {name: part for name, part in record.parts.items() if not part.holds_nothing}


def _left_out(kind: AvroType, path: Path) -> Iterator[Path]:
    is_union = len(kind.branches) > 1
    for branch in kind.branches:
        inside = (*path, f"{MEMBER}{branch.simple_name}") if is_union else path
        for name, part in branch.parts.items():
            if branch.kind == "record" and part.holds_nothing:
                yield (*inside, name)
            else:
                yield from _left_out(part, (*inside, name))


def _iceberg(kind: AvroType, path: Path, builder: ColumnBuilder) -> IcebergType:
    match kind.kind:
        case "record":
            return builder.struct(_fields(kind, path, builder), path)
        case "array":
            return builder.list_of(_iceberg(kind.parts["element"], (*path, "element"), builder))
        case "map":
            return builder.map_of(_iceberg(kind.parts["value"], (*path, "value"), builder))
        case "union":
            return _union(kind, path, builder)
    if kind.logical == "decimal":
        # Spark would read an invalid one as bytes, a type that the column could never change again.
        if problem := decimal_problem(kind):
            raise builder.unsupported(path, problem)
        return DecimalType(kind.attributes["precision"], kind.attributes.get("scale", 0))
    return AVRO_LOGICAL.get(kind.logical) or AVRO[kind.kind]


def _union(kind: AvroType, path: Path, builder: ColumnBuilder) -> IcebergType:
    kinds = [branch.kind for branch in kind.branches]
    if len(kinds) == 1:
        return _iceberg(kind.branches[0], path, builder)
    if sorted(kinds) == ["int", "long"]:
        return LongType()
    if sorted(kinds) == ["double", "float"]:
        return DoubleType()
    members = []
    for branch in kind.branches:
        name = f"{MEMBER}{branch.simple_name}"
        members.append(builder.field(name, _iceberg(branch, (*path, name), builder)))
    return builder.struct(members, path)
