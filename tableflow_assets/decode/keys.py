"""A record's key: which records are of one row."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode import avro
from tableflow_assets.decode.text import all_text
from tableflow_assets.decode.types import table_schema
from tableflow_assets.source.registry import Subject

HASH_HEX_DIGITS = 32  # 16 bytes: no two keys will ever share them, and they are short to look for
# Spark's own formats stop at the millisecond, and depend on the session's time zone.
TO_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


def key_hash(key: Column, subject: Subject | None) -> Column:
    """The same for all records with the same key, whatever schema version the key was written with."""
    return F.unhex(F.substr(F.sha2(_identity(key, subject), 256), F.lit(1), F.lit(HASH_HEX_DIGITS)))


def key_problem(key: Column, subject: Subject | None) -> Column:
    """Why a record belongs to no row; null where it does."""
    no_key = F.when(key.isNull(), "null_key")
    if subject is None:
        return no_key
    return (
        no_key.when(~avro.is_framed(key), "key_not_confluent_framed")
        .when(avro.schema_id(key, subject).isNull(), "unknown_key_schema_id")
        .when(_identity(key, subject).isNull(), "malformed_avro_key")
        .when(~_is_text(key, subject), "invalid_utf8_key")
    )


def _identity(key: Column, subject: Subject | None) -> Column:
    """The bytes of the key; where it has a schema, its decoded content.

    As JSON without nulls, its fields sorted by name: a version that adds a nullable field, or moves
    one, leaves the keys as they were.
    """
    if subject is None:
        return key
    decoded = _decoded(key, subject)
    content = F.to_json(F.struct(decoded.alias("key")), TO_JSON)
    is_sorted = F.to_json(F.parse_json(content)).cast("binary")  # as Spark's VARIANT always is
    return F.when(avro.was_decoded(decoded, subject), is_sorted)


def _is_text(key: Column, subject: Subject) -> Column:
    """Bytes that are no text look alike in JSON: their keys would become one."""
    schema = json.loads(subject.latest.text)
    if isinstance(schema, dict) and schema.get("type") == "record":
        columns = table_schema(subject.latest.text, subject.name)
        return all_text(_decoded(key, subject), columns)
    is_string = "string" in (schema, schema["type"] if isinstance(schema, dict) else None)
    return F.is_valid_utf8(_decoded(key, subject)) if is_string else F.lit(True)


def _decoded(key: Column, subject: Subject) -> Column:
    """A field that the key was written without is null, whatever default a later version gives it.

    Otherwise the same bytes would be another key once that version is registered.
    """
    text = json.dumps(_without_defaults(json.loads(subject.latest.text)))
    newest = replace(subject.latest, text=text)
    return avro.decoded(key, replace(subject, versions=(*subject.versions[:-1], newest)))


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_defaults(branch) for branch in schema]
    if isinstance(schema, dict):
        return {k: _without_defaults(v) for k, v in schema.items() if k != "default"}
    return schema
