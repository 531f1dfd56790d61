"""What the judge needs of a serialization. It shares none of this with the write path."""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Protocol

from pyiceberg.types import IcebergType, StructType

from tableflow_assets.source.subject import Subject

HEADER_BYTES = 5  # of Confluent's wire format: a zero byte, and the schema's id
VALUE_COLUMN = "value"  # the single column of a value that is not a record

Row = dict[str, Any]  # what columns hold, by their names
Path = tuple[str, ...]  # of columns, outermost first; empty for the whole value


class Unreadable(Exception):
    """Bytes that do not follow the serialization, or the subject's schemas."""


class Reader(Protocol):
    """Reads values or keys. Whatever is wrong with the bytes, it raises ``Unreadable``."""

    def read(self, data: bytes) -> Any:
        """The content, in the reader's own form."""

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        """What a column of this type should hold; None if the content has nothing there."""

    def as_row(self, content: Any, around: Path, row: StructType) -> Row:
        """What all columns should hold; ``around``: the path to the record that they are the fields of."""
        return {
            f.name: self.as_column(content, (*around, f.name), f.field_type) for f in row.fields
        }

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        """For a key: the bytes that the table hashes. ``kind``: the type of its decoded keys."""

    def schema_id(self, data: bytes) -> int | None:
        """The id of the schema it was written with, if it has one."""


def ids_of(subject: Subject) -> frozenset[int]:
    return frozenset(version.schema_id for version in subject.versions)


def framed_id(data: bytes, ids: Container[int]) -> int:
    """The id in the header, which must be one of these: those of the subject's versions."""
    schema_id = int.from_bytes(data[1:HEADER_BYTES], "big")
    is_framed = len(data) >= HEADER_BYTES and data[0] == 0
    if not is_framed or schema_id not in ids:
        raise Unreadable("its header names no schema of the subject")
    return schema_id
