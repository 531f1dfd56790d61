"""The one type mapping: an Avro schema as Iceberg columns, the way Spark's Avro reader makes them.

| Avro                               | Iceberg                    |
|------------------------------------|----------------------------|
| boolean, int, long, float, double  | the same                   |
| string, enum, uuid                 | string                     |
| bytes, fixed                       | binary                     |
| decimal                            | decimal(precision, scale)  |
| date                               | date                       |
| timestamp-millis, -micros          | timestamptz                |
| local-timestamp-millis, -micros    | timestamp                  |
| time-millis / time-micros          | int / long                 |
| array, map, record                 | list, map, struct          |
| [null, X]                          | X                          |
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import count
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from tableflow_assets.errors import UnsupportedSchema
from tableflow_assets.settings_blocks import Mode

KAFKA_COLUMN = "_kafka"
KEYED_MODES = ("upsert", "cdc")  # one row a key
LARGEST_PRECISION = 38

_PRIMITIVES: dict[str, IcebergType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: dict[tuple[str, str], IcebergType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestamptzType(),
    ("long", "timestamp-micros"): TimestamptzType(),
    ("long", "local-timestamp-millis"): TimestampType(),
    ("long", "local-timestamp-micros"): TimestampType(),
}


def table_schema(avro_text: str, subject: str, mode: Mode = "append") -> Schema:
    """The registry's fields as columns, plus ``_kafka``: where each row comes from.

    In mode `cdc` the columns are those of the changed row, which Debezium's envelope has in `after`.
    """
    avro = json.loads(avro_text)
    if not isinstance(avro, dict) or avro.get("type") != "record":
        raise UnsupportedSchema(
            f"The schema of {subject} is not a record, so it has no columns.",
            "Wrap the value into a record with one field.",
        )
    mapping = _Mapping(subject)
    columns = mapping.fields(avro, path=())
    if mode == "cdc":
        columns = _changed_row(columns, subject)
    _refuse_clashing_names(subject, [column.name for column in columns])
    return Schema(
        *columns, mapping.field(KAFKA_COLUMN, kafka_struct(mapping.ids, mode), _KAFKA_DOC)
    )


def _changed_row(envelope: list[NestedField], subject: str) -> list[NestedField]:
    kinds = {field.name: field.field_type for field in envelope}
    after = kinds.get("after")
    if not isinstance(after, StructType) or not isinstance(kinds.get("op"), StringType):
        raise UnsupportedSchema(
            f"{subject} is not a Debezium envelope: it needs a record `after` and a string `op`.",
            "Set `mode: upsert` for values without an envelope, or `mode: append` to keep them all.",
        )
    return list(after.fields)


_KAFKA_DOC = "Where this row comes from: its place in the Kafka log."


KEY_HASH_DOC = "Equal for equal keys: the first half of the SHA-256 of the decoded key"
KEY_TIMESTAMP_DOC = (
    "The key's largest timestamp in this partition: decides when it moves to another"
)


def kafka_struct(ids: Any, mode: Mode = "append") -> StructType:
    def field(name: str, kind: IcebergType, doc: str) -> NestedField:
        return NestedField(next(ids), name, kind, required=False, doc=doc)

    header = StructType(
        NestedField(next(ids), "key", StringType(), required=False),
        NestedField(next(ids), "value", BinaryType(), required=False),
    )
    headers = ListType(next(ids), header, element_required=False)
    of_key = []
    if mode in KEYED_MODES:
        of_key = [
            field("key_hash", BinaryType(), KEY_HASH_DOC),
            field("key_timestamp", TimestamptzType(), KEY_TIMESTAMP_DOC),
        ]
    return StructType(
        field("partition", IntegerType(), "Kafka partition"),
        field("offset", LongType(), "Offset within the partition"),
        field("timestamp", TimestamptzType(), "The record's timestamp"),
        field("key", BinaryType(), "The record's key, as it was sent"),
        field("headers", headers, "The record's headers"),
        field("schema_id", IntegerType(), "The registry's id of the schema it was written with"),
        *of_key,
    )


class _Mapping:
    """One walk over one schema; remembers named types, and refuses the ones that contain themselves."""

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.ids = count(1)  # placeholders: the catalog assigns the real field ids
        self._named: dict[str, Any] = {}
        self._inside: list[str] = []
        self._namespace = ""  # of the type around the one being looked at

    def field(self, name: str, kind: IcebergType, doc: str | None) -> NestedField:
        return NestedField(next(self.ids), name, kind, required=False, doc=doc)

    def fields(self, record: dict[str, Any], path: tuple[str, ...]) -> list[NestedField]:
        name = self._remember(record)
        if name in self._inside:
            raise self._unsupported(path, f"the type {name} contains itself")
        self._inside.append(name)
        self._refuse_what_no_struct_can_hold(record, path)
        outer, self._namespace = self._namespace, name.rpartition(".")[0]
        fields = [
            self.field(f["name"], self.type_of(f["type"], (*path, f["name"])), f.get("doc"))
            for f in record["fields"]
        ]
        self._namespace = outer
        self._inside.pop()
        return fields

    def _refuse_what_no_struct_can_hold(
        self, record: dict[str, Any], path: tuple[str, ...]
    ) -> None:
        if path and not record["fields"]:
            raise self._unsupported(path, "the record has no fields")
        twice = _clashing(field["name"] for field in record["fields"])
        if path and twice:
            raise self._unsupported(path, f"its fields differ only in case: {twice}")

    def type_of(self, avro: Any, path: tuple[str, ...]) -> IcebergType:
        if isinstance(avro, list):
            return self.type_of(self._only_branch(avro, path), path)
        if isinstance(avro, str):
            return self._by_name(avro, path)
        if isinstance(avro["type"], dict | list):
            return self.type_of(avro["type"], path)
        return self._complex(avro, path)

    def _complex(self, avro: dict[str, Any], path: tuple[str, ...]) -> IcebergType:
        kind = avro["type"]
        if kind == "record":
            return StructType(*self.fields(avro, path))
        if kind == "array":
            element = self.type_of(avro["items"], (*path, "element"))
            return ListType(next(self.ids), element, element_required=False)
        if kind == "map":
            value = self.type_of(avro["values"], (*path, "value"))
            ids = (next(self.ids), next(self.ids))
            return MapType(ids[0], StringType(), ids[1], value, value_required=False)
        if kind in ("enum", "fixed"):
            self._remember(avro)
        if kind in ("bytes", "fixed") and avro.get("logicalType") == "decimal":
            return self._decimal(avro, path)
        return _LOGICAL.get((kind, avro.get("logicalType", ""))) or self._by_name(kind, path)

    def _by_name(self, name: str, path: tuple[str, ...]) -> IcebergType:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        named = self._named.get(self._full_name(name)) or self._named.get(name)
        if named is not None:
            return self.type_of(named, path)
        raise self._unsupported(path, f"the type {name!r} has no place in a table")

    def _decimal(self, avro: dict[str, Any], path: tuple[str, ...]) -> IcebergType:
        if avro["precision"] > LARGEST_PRECISION:
            raise self._unsupported(path, f"a decimal has at most {LARGEST_PRECISION} digits")
        return DecimalType(avro["precision"], avro.get("scale", 0))

    def _only_branch(self, union: list[Any], path: tuple[str, ...]) -> Any:
        branches = [branch for branch in union if branch != "null"]
        if len(branches) != 1:
            raise self._unsupported(path, "it is a union of several types")
        return branches[0]

    def _remember(self, named: dict[str, Any]) -> str:
        full = self._full_name(str(named["name"]), named.get("namespace"))
        # Looked up again by its full name: its own namespace must not depend on where it is used.
        self._named[full] = named | {"name": full}
        return full

    def _full_name(self, name: str, namespace: str | None = None) -> str:
        """Avro's rule: a name with dots is complete; others take the nearest namespace."""
        if "." in name:
            return name
        around = self._namespace if namespace is None else namespace
        return f"{around}.{name}" if around else name

    def _unsupported(self, path: tuple[str, ...], why: str) -> UnsupportedSchema:
        return UnsupportedSchema(
            f"The field {'.'.join(path)!r} of {self.subject} cannot become a column: {why}.",
            "Change the field's type, or leave the topic out of tableflow.yaml.",
        )


def _refuse_clashing_names(subject: str, names: list[str]) -> None:
    if KAFKA_COLUMN in {name.lower() for name in names}:
        raise UnsupportedSchema(
            f"{subject} has a field called {KAFKA_COLUMN!r}, the name of Tableflow's own column.",
            "Rename the field.",
        )
    if twice := _clashing(names):
        raise UnsupportedSchema(
            f"{subject} has fields that differ only in case: {twice}.",
            "Rename one: most engines could not tell them apart.",
        )


def _clashing(names: Iterable[str]) -> str:
    times = Counter(name.lower() for name in names)
    return ", ".join(sorted(name for name, count in times.items() if count > 1))
