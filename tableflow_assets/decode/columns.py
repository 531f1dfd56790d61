"""The columns of a table, as every serialization builds them from its schema.

Field ids are placeholders: the catalog assigns the real ones. Every column may be NULL, whatever the
schema says: a record written before a field was added has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count

from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StringType, StructType

from tableflow_assets.base.errors import UnsupportedSchema

Path = tuple[str, ...]  # of a field: its names, outermost first


class ColumnBuilder:
    """Builds the columns of one subject, which its errors name."""

    def __init__(self, subject: str, ids: Iterator[int] | None = None) -> None:
        self.subject = subject
        self.ids = ids or count(1)

    def field(self, name: str, kind: IcebergType, doc: str | None = None) -> NestedField:
        return NestedField(next(self.ids), name, kind, required=False, doc=doc)

    def list_of(self, element: IcebergType) -> ListType:
        return ListType(next(self.ids), element, element_required=False)

    def map_of(self, value: IcebergType, key: IcebergType | None = None) -> MapType:
        ids = (next(self.ids), next(self.ids))
        return MapType(ids[0], key or StringType(), ids[1], value, value_required=False)

    def struct(self, fields: Iterable[NestedField], path: Path) -> StructType:
        """Refuses a struct without fields, or with fields that most engines could not tell apart."""
        members = list(fields)
        if not members:
            raise self.unsupported(path, "it is a record without fields")
        times = Counter(field.name.lower() for field in members)
        if duplicates := sorted(field.name for field in members if times[field.name.lower()] > 1):
            raise self.unsupported(path, f"fields differ only in case: {', '.join(duplicates)}")
        return StructType(*members)

    def unsupported(self, path: Path, reason: str) -> UnsupportedSchema:
        subject = f"The field {'.'.join(path)!r} of {self.subject}" if path else self.subject
        return UnsupportedSchema(
            f"{subject} cannot become a column: {reason}.",
            "Change the field's type, or leave the topic out of tableflow.yaml.",
        )
