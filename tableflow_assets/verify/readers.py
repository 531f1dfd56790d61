"""What the judge needs of a serialization. It shares none of this with the write path."""

from __future__ import annotations

from typing import Any, Protocol

from pyiceberg.types import IcebergType

from tableflow_assets.source.subject import Subject

HEADER_BYTES = 5  # of Confluent's wire format: a zero byte, and the schema's id
VALUE_COLUMN = "value"  # the single column of a value that is not a record

Path = tuple[str, ...]  # of columns, outermost first; empty for the whole value


class Unreadable(Exception):
    """Bytes that do not follow the serialization, or the subject's schemas."""


class Reader(Protocol):
    """Reads values or keys. Whatever is wrong with the bytes, it raises ``Unreadable``."""

    def read(self, data: bytes) -> Any:
        """The content, in the reader's own form."""

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        """What a column of this type should hold; None if the content has nothing there."""

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        """For a key: the bytes that the table hashes. ``kind``: the type of its decoded keys."""

    def schema_id(self, data: bytes) -> int | None:
        """The id of the schema it was written with, if it has one."""


def framed_id(data: bytes, subject: Subject) -> int:
    """The id in the header, which must be that of one of the subject's versions."""
    schema_id = int.from_bytes(data[1:HEADER_BYTES], "big")
    is_framed = len(data) >= HEADER_BYTES and data[0] == 0
    if not is_framed or all(version.schema_id != schema_id for version in subject.versions):
        raise Unreadable("its header names no schema of the subject")
    return schema_id
