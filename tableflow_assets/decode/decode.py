"""Records in, rows and dead letters out."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tableflow_assets.decode import avro
from tableflow_assets.decode.conform import conformed
from tableflow_assets.decode.text import all_text
from tableflow_assets.decode.types import KAFKA_COLUMN, table_schema
from tableflow_assets.source.registry import Subject


@dataclass(frozen=True)
class Decoded:
    """One pass over the records; ``seen`` has its counts once the rows were written."""

    rows: DataFrame
    dead: DataFrame
    seen: Observation


def decode(records: DataFrame, subject: Subject, wanted: Schema) -> Decoded:
    newest = table_schema(subject.latest.text, subject.name)
    is_text = all_text(F.col("decoded"), newest)
    judged = (
        records.withColumn("schema_id", avro.schema_id(subject))
        .withColumn("decoded", avro.decoded_value(subject))
        .withColumn("problem", avro.problem(F.col("decoded"), F.col("schema_id"), is_text))
    )
    seen = Observation()
    # The observation also keeps Spark from pushing the filter below it and decoding twice.
    counted = judged.observe(
        seen,
        F.count(F.lit(1)).alias("records"),
        F.count("problem").alias("dead"),
    )
    good = counted.filter(F.col("problem").isNull())
    return Decoded(
        rows=good.select(*_columns(newest, wanted)),
        dead=judged.filter(F.col("problem").isNotNull()),
        seen=seen,
    )


def _columns(decoded: Schema, wanted: Schema) -> list[Column]:
    """The table's columns, in its order."""
    have = {field.name: field.field_type for field in decoded.fields}
    place = ("partition", "offset", "timestamp", "key", "headers", "schema_id")
    columns = []
    for field in wanted.fields:
        if field.name == KAFKA_COLUMN:
            column = F.struct(*(F.col(name) for name in place))
        else:
            value = F.col("decoded").getField(field.name)
            column = conformed(value, have.get(field.name), field.field_type)
        columns.append(column.alias(field.name))
    return columns
