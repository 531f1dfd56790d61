"""Confluent-framed Avro, decoded in the JVM: every record with the schema it was written with.

A framed value is a zero byte, four bytes of schema id, then Avro. Each known id is one branch of a
CASE over those five bytes, so a batch that mixes schema versions is still read in one pass.
"""

from __future__ import annotations

import json
from functools import reduce
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from tableflow_assets.source.registry import RegisteredSchema, Subject

HEADER_BYTES = 5
# Spark turns a malformed record into a row of nulls, like a record whose fields are all null. This
# field, absent from the data and defaulted to true by Avro's schema resolution, tells them apart.
DECODED = "__tableflow_decoded"


def decoded(framed: Column, subject: Subject) -> Column:
    """Key or value, in the newest version's shape; null where it cannot be decoded."""
    reader = _reader_schema(subject.latest.text)
    options = {"avroSchema": reader, "mode": "PERMISSIVE"}
    body = F.substr(framed, F.lit(HEADER_BYTES + 1))

    def branch(otherwise: Column, schema: RegisteredSchema) -> Column:
        value = from_avro(body, schema.text, options)
        return F.when(_header(framed) == F.lit(_header_of(schema)), value).otherwise(otherwise)

    return reduce(branch, subject.versions, F.lit(None))


def schema_id(framed: Column, subject: Subject) -> Column:
    """The id of the schema that it was written with; null where it is not a known one."""

    def branch(otherwise: Column, schema: RegisteredSchema) -> Column:
        is_it = _header(framed) == F.lit(_header_of(schema))
        return F.when(is_it, schema.schema_id).otherwise(otherwise)

    return reduce(branch, subject.versions, F.lit(None).cast("int"))


def was_decoded(decoded: Column, subject: Subject) -> Column:
    """Not so where the bytes after the header are not what their schema says."""
    is_record = _is_record(json.loads(subject.latest.text))
    return (decoded[DECODED] if is_record else decoded).isNotNull()


def is_framed(bytes_: Column) -> Column:
    is_long_enough = F.length(bytes_) >= HEADER_BYTES
    return is_long_enough & (F.substr(bytes_, F.lit(1), F.lit(1)) == F.lit(b"\x00"))


def _header(framed: Column) -> Column:
    return F.substr(framed, F.lit(1), F.lit(HEADER_BYTES))


def _header_of(schema: RegisteredSchema) -> bytes:
    return b"\x00" + schema.schema_id.to_bytes(4, "big")


def _reader_schema(schema_text: str) -> str:
    """The newest schema, made to accept records of all older ones, and with the marker."""
    schema = _with_defaults(json.loads(schema_text))
    if not _is_record(schema):
        return schema_text  # a key of one value: null already says that it could not be read
    marker = {"name": DECODED, "type": "boolean", "default": True}
    return json.dumps(schema | {"fields": [*schema["fields"], marker]})


def _is_record(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "record"


def _with_defaults(schema: Any) -> Any:
    """Every field may be absent from the data: then it is NULL, like any added column in old rows."""
    if isinstance(schema, list):
        return [_with_defaults(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    nested = {key: _with_defaults(schema[key]) for key in ("items", "values") if key in schema}
    if isinstance(schema.get("type"), dict | list):
        nested["type"] = _with_defaults(schema["type"])
    if "fields" in schema:
        nested["fields"] = [_field_with_default(field) for field in schema["fields"]]
    return schema | nested


def _field_with_default(field: dict[str, Any]) -> dict[str, Any]:
    kind = _with_defaults(field["type"])
    if "default" in field:
        return field | {"type": kind}
    branches = [
        branch for branch in (kind if isinstance(kind, list) else [kind]) if branch != "null"
    ]
    return field | {"type": ["null", *branches], "default": None}
