"""Subjects without a registry, and records framed with the ids of their versions."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro

from tableflow_assets.source.subject import Kind, RegisteredSchema, Subject


def subject(*texts: Any, kind: Kind = "AVRO", references: dict[str, str] | None = None) -> Subject:
    """Its versions have the ids 1, 2, 3, ..."""
    used = tuple((references or {}).items())
    versions = [
        RegisteredSchema(n, n, text if kind == "PROTOBUF" else json.dumps(text), kind, used)
        for n, text in enumerate(texts, start=1)
    ]
    return Subject("t-value", tuple(versions))


def framed(body: bytes, schema_id: int = 1) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def avro(schema: Any, value: Any, schema_id: int = 1) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return framed(body.getvalue(), schema_id)


def record(called: str = "R", /, **fields: Any) -> dict[str, Any]:
    members = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": called, "fields": members}


def logical(kind: str, meaning: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": meaning, **more}
