"""Confluent's wire format: a zero byte, four bytes of schema id, then the body."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.source.subject import RegisteredSchema, Subject

HEADER_BYTES = 5


def header(framed: Column) -> Column:
    return F.substr(framed, F.lit(1), F.lit(HEADER_BYTES))


def body(framed: Column) -> Column:
    return F.substr(framed, F.lit(HEADER_BYTES + 1))


def is_framed(data: Column) -> Column:
    is_long_enough = F.length(data) >= HEADER_BYTES
    return is_long_enough & (F.substr(data, F.lit(1), F.lit(1)) == F.lit(b"\x00"))


def by_version(framed: Column, values: Iterable[tuple[RegisteredSchema, Column]]) -> Column:
    """The value of the version that the header names; null if it is none of these.

    ``values``: oldest first; the newest is looked at first. One CASE with many branches, not one inside
    the other: Spark Connect cannot send expressions more than about a hundred levels deep.
    """
    (newest, value), *older = reversed(list(values))
    named = header(framed)
    first = F.when(named == F.lit(newest.header), value)
    return reduce(lambda case, of: case.when(named == F.lit(of[0].header), of[1]), older, first)


def known_id(framed: Column, subject: Subject) -> Column:
    """The id of the schema it was written with; null if that is none of the subject's."""
    return by_version(framed, ((schema, F.lit(schema.schema_id)) for schema in subject.versions))


def versions_in(records: DataFrame, column: str, subject: Subject) -> set[RegisteredSchema]:
    """The subject's versions that the values of this column were written with. Reads all records."""
    named = header(F.col(column)).alias("header")
    is_known = F.col("header").isin([schema.header for schema in subject.versions])
    rows = records.select(named).filter(is_known).distinct().collect()
    headers = {bytes(row["header"]) for row in rows}
    return {schema for schema in subject.versions if schema.header in headers}


def named_id(framed: Column) -> Column:
    """The id in the header, whether or not it is registered (a bigint)."""
    digits = F.hex(F.substr(framed, F.lit(2), F.lit(HEADER_BYTES - 1)))
    return F.when(is_framed(framed), F.conv(digits, 16, 10).cast("bigint"))


def framing_problem(data: Column, subject: Subject) -> Column:
    """What is wrong before the body is even read; to be continued with ``when``."""
    # A single look for a good record, which nearly all are; only the others need the reason.
    is_known = header(data).isin([schema.header for schema in subject.versions])
    problem = (
        F.when(F.length(data) == 0, "empty")
        .when(~is_framed(data), "not_confluent_framed")
        .otherwise("unknown_schema_id")
    )
    return F.when(~F.coalesce(is_known, F.lit(False)), problem)
