"""Plain bytes and text, without a schema."""

from __future__ import annotations

from typing import Any

from pyiceberg.types import IcebergType

from tableflow_assets.verify.json_text import read_json
from tableflow_assets.verify.readers import VALUE_COLUMN, Path, Reader, Unreadable
from tableflow_assets.verify.spark_json import json_identity


class Raw(Reader):
    def read(self, data: bytes) -> Any:
        return data

    def as_column(self, content: Any, path: Path, kind: IcebergType) -> Any:
        return content if path in ((), (VALUE_COLUMN,)) else None

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        self.read(data)
        return data

    def schema_id(self, data: bytes) -> int | None:
        return None


class Text(Raw):
    def read(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Unreadable("not UTF-8") from None


class Json(Text):
    """Stored as the text that was sent; but keys are equal if their JSON is."""

    def read(self, data: bytes) -> str:
        read_json(data)
        return super().read(data)

    def identity(self, data: bytes, kind: IcebergType | None) -> bytes:
        return json_identity(data)
