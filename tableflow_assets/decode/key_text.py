"""A key as somebody types it: the bytes that records with this key have in the log.

No message here repeats the key: it may be what somebody wants to have forgotten.
"""

from __future__ import annotations

import io
import json
from typing import Any, Literal

import fastavro

from tableflow_assets.errors import TableflowError
from tableflow_assets.source.registry import RegisteredSchema, Subject

Form = Literal["text", "hex", "json"]


def key_spellings(typed: str, form: Form, subject: Subject | None) -> tuple[bytes, ...]:
    """One for plain bytes; of a key with a schema, one for every version that can express it."""
    if form == "hex":
        return (_from_hex(typed),)
    if form == "json":
        return _from_json(typed, subject)
    plain = typed.encode()
    if subject is None:
        return (plain,)
    if not _is_string(json.loads(subject.latest.text)):
        raise TableflowError(
            f"The keys of this topic have a schema ({subject.name}) and are not text.",
            "Give the key as JSON (--key-json), or its bytes in hex (--key-hex).",
        )
    # Also the bare text: a producer may have written it without the schema.
    return (*_framed(typed, subject), plain)


def _from_hex(typed: str) -> bytes:
    try:
        return bytes.fromhex(typed.removeprefix("0x"))
    except ValueError:
        raise TableflowError(
            "The key is not in hex.",
            "Write two of 0-9 and a-f for every byte: --key 0a1b --key-hex",
        ) from None


def _from_json(typed: str, subject: Subject | None) -> tuple[bytes, ...]:
    if subject is None:
        raise TableflowError(
            "The keys of this topic have no schema in the registry, so they are bytes, not JSON.",
            "Leave out --key-json and give the key's text, or its bytes in hex (--key-hex).",
        )
    try:
        value = json.loads(typed)
    except ValueError:
        raise TableflowError(
            "The key is not JSON.", """Quote text within the shell's quotes: --key '"text"'."""
        ) from None
    found = _framed(value, subject)
    if not found:
        raise TableflowError(
            f"The key does not fit any version of {subject.name}.",
            f"Write it as this schema says: {subject.latest.text}",
        )
    return found


def _framed(value: Any, subject: Subject) -> tuple[bytes, ...]:
    """Newest version first."""
    written = (_written(value, version) for version in reversed(subject.versions))
    return tuple(framed for framed in written if framed is not None)


def _written(value: Any, version: RegisteredSchema) -> bytes | None:
    schema, body = fastavro.parse_schema(json.loads(version.text)), io.BytesIO()
    try:
        if not fastavro.validate(value, schema, raise_errors=False):
            return None
        # Strict: a field that this version does not have would be left out, which is another key.
        fastavro.schemaless_writer(body, schema, value, strict_allow_default=True)
    except Exception:  # fastavro says in many ways that a value does not fit
        return None
    return b"\x00" + version.schema_id.to_bytes(4, "big") + body.getvalue()


def _is_string(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(branch == "null" or _is_string(branch) for branch in schema)
    return schema == "string" or (isinstance(schema, dict) and _is_string(schema.get("type")))
