"""What the judge needs of a serialization. It shares none of this with the write path."""

from __future__ import annotations

from typing import Any, Protocol

from pyiceberg.types import IcebergType

from tableflow_assets.source.subject import Subject

HEADER_BYTES = 5  # of Confluent's wire format: a zero byte, and the schema's id
VALUE_COLUMN = "value"  # the one column of a value that is no record

Path = tuple[str, ...]  # of columns, from the outermost on; empty: the whole value


class Unreadable(Exception):
    """Bytes that are not what the serialization, or a schema of the subject, says."""


class Reader(Protocol):
    """Reads values, or keys. Whatever is wrong with the bytes, it is ``Unreadable``."""

    def read(self, data: bytes) -> Any:
        """The content, in a form of this reader's own."""

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        """What a column of this type holds of it: None where there is no such thing."""

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        """Of a key: what the table takes the hash of. ``kind``: the type of its decoded keys."""

    def schema_id(self, data: bytes) -> int | None:
        """Of the schema that it was written with, if schemas have a part in it."""


def framed_id(data: bytes, subject: Subject) -> int:
    """The id in the header: that of one of the subject's versions."""
    found = int.from_bytes(data[1:HEADER_BYTES], "big")
    is_framed = len(data) >= HEADER_BYTES and data[0] == 0
    if not is_framed or all(version.schema_id != found for version in subject.versions):
        raise Unreadable("no schema of the subject is named in its header")
    return found
