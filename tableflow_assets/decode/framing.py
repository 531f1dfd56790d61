"""Confluent's wire format: a zero byte, four bytes of schema id, then the body."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.source.subject import RegisteredSchema, Subject

HEADER_BYTES = 5


def is_framed(data: Column) -> Column:
    is_long_enough = F.length(data) >= HEADER_BYTES
    return is_long_enough & (F.substr(data, F.lit(1), F.lit(1)) == F.lit(b"\x00"))


def body(framed: Column) -> Column:
    return F.substr(framed, F.lit(HEADER_BYTES + 1))


def written_with(framed: Column, schema: RegisteredSchema) -> Column:
    """Whether the header names this schema."""
    return F.substr(framed, F.lit(1), F.lit(HEADER_BYTES)) == F.lit(schema.header)


def known_id(framed: Column, subject: Subject) -> Column:
    """The id of the schema it was written with; null if that is none of the subject's."""

    def branch(otherwise: Column, schema: RegisteredSchema) -> Column:
        return F.when(written_with(framed, schema), schema.schema_id).otherwise(otherwise)

    return reduce(branch, subject.versions, F.lit(None).cast("int"))


def named_id(framed: Column) -> Column:
    """The id in the header, whether or not it is registered (a bigint)."""
    digits = F.hex(F.substr(framed, F.lit(2), F.lit(HEADER_BYTES - 1)))
    return F.when(is_framed(framed), F.conv(digits, 16, 10).cast("bigint"))


def framing_problem(data: Column, subject: Subject) -> Column:
    """What is wrong before the body is even read; to be continued with ``when``."""
    # A single comparison for a good record, which nearly all are; only the others need the reason.
    problem = (
        F.when(F.length(data) == 0, "empty")
        .when(~is_framed(data), "not_confluent_framed")
        .otherwise("unknown_schema_id")
    )
    return F.when(known_id(data, subject).isNull(), problem)
