"""From a key as typed by a person to the bytes that records with this key have in the log.

No message here repeats the key: it may be data that is about to be erased.
"""

from __future__ import annotations

import io
import json
from typing import Any, Literal

import fastavro
from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.decode.protobuf.schema import ProtobufSchemas, message_at
from tableflow_assets.decode.protobuf.version import pool_of
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import RegisteredSchema, Subject

Form = Literal["text", "hex", "json"]


def key_spellings(text: str, form: Form, keys: Serialization) -> tuple[bytes, ...]:
    """One for plain bytes; for a key with a schema, one for each version that can express it."""
    if form == "hex":
        return (_from_hex(text),)
    if form == "json":
        return _from_json(text, keys.subject)
    plain = text.encode()
    if keys.subject is None:
        return (plain,)
    if not _is_string(keys.subject):
        raise TableflowError(
            f"The keys of this topic have a schema ({keys.subject.name}) and are not text.",
            "Give the key as JSON (--key-json), or its bytes in hex (--key-hex).",
        )
    # Also the bare text: a producer may have written it without the schema.
    return (*_framed(text, keys.subject), plain)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError:
        raise TableflowError(
            "The key is not in hex.",
            "Write two hex digits (0-9, a-f) for every byte: --key 0a1b --key-hex",
        ) from None


def _from_json(text: str, subject: Subject | None) -> tuple[bytes, ...]:
    if subject is None:
        raise TableflowError(
            "The keys of this topic have no schema in the registry, so they are bytes, not JSON.",
            "Leave out --key-json and give the key's text, or its bytes in hex (--key-hex).",
        )
    try:
        value = json.loads(text)
    except ValueError:
        raise TableflowError(
            "The key is not JSON.", """Quote text within the shell's quotes: --key '"text"'."""
        ) from None
    spellings = _framed(value, subject)
    if not spellings:
        raise TableflowError(
            f"The key does not fit any version of {subject.name}.",
            f"Write it as this schema says: {subject.latest.text}",
        )
    return spellings


def _framed(value: Any, subject: Subject) -> tuple[bytes, ...]:
    """Newest version first."""
    write = {"AVRO": _avro, "JSON": _json, "PROTOBUF": _protobuf}[subject.kind]
    bodies = ((version, write(value, version)) for version in reversed(subject.versions))
    return tuple(version.header + body for version, body in bodies if body is not None)


def _avro(value: Any, version: RegisteredSchema) -> bytes | None:
    types: dict[str, Any] = {}
    for _, text in reversed(version.references):  # what others refer to comes last in the list
        fastavro.parse_schema(json.loads(text), named_schemas=types)
    schema = fastavro.parse_schema(json.loads(version.text), named_schemas=types)
    body = io.BytesIO()
    try:
        if not fastavro.validate(value, schema, raise_errors=False):
            return None
        # Strict: a field that this version does not have would be left out, which is another key.
        fastavro.schemaless_writer(body, schema, value, strict_allow_default=True)
    except Exception:  # fastavro has many ways to say that a value does not fit
        return None
    return body.getvalue()


def _json(value: Any, version: RegisteredSchema) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _protobuf(value: Any, version: RegisteredSchema) -> bytes | None:
    """Written as the schema's first message, the only one that Confluent's serializers use for keys."""
    schemas = ProtobufSchemas("", [(version.schema_id, version.text, dict(version.references))])
    compiled = schemas.versions[0].descriptor_set
    kind = pool_of(compiled).FindMessageTypeByName(message_at(compiled, [0]))
    try:
        message = json_format.ParseDict(value, GetMessageClass(kind)())
    except json_format.ParseError:
        return None
    return b"\x00" + bytes(message.SerializeToString(deterministic=True))


def _is_string(subject: Subject) -> bool:
    if subject.kind == "PROTOBUF":
        return False
    schema = json.loads(subject.latest.text)
    if subject.kind == "JSON":
        return isinstance(schema, dict) and schema.get("type") == "string"
    return _is_avro_string(schema)


def _is_avro_string(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(branch == "null" or _is_avro_string(branch) for branch in schema)
    return schema == "string" or (isinstance(schema, dict) and _is_avro_string(schema.get("type")))
