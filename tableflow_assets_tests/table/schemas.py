"""Iceberg schemas in few words, as tests of evolution write them."""

from __future__ import annotations

from itertools import count

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

_ids = count(1)  # any will do: nobody who compares schemas looks at them


def columns(docs: dict[str, str] | None = None, /, **kinds: IcebergType) -> Schema:
    return Schema(*_fields(docs or {}, kinds))


def struct_of(docs: dict[str, str] | None = None, /, **kinds: IcebergType) -> StructType:
    return StructType(*_fields(docs or {}, kinds))


def list_of(element: IcebergType) -> ListType:
    return ListType(next(_ids), element, element_required=False)


def map_of(value: IcebergType, key: IcebergType | None = None) -> MapType:
    return MapType(next(_ids), key or StringType(), next(_ids), value, value_required=False)


def _fields(docs: dict[str, str], kinds: dict[str, IcebergType]) -> list[NestedField]:
    return [
        NestedField(next(_ids), name, kind, required=False, doc=docs.get(name))
        for name, kind in kinds.items()
    ]
