"""Records in, rows and dead letters out."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tableflow_assets.decode import avro
from tableflow_assets.decode.spark_types import spark_type
from tableflow_assets.decode.types import KAFKA_COLUMN
from tableflow_assets.source.registry import Subject


@dataclass(frozen=True)
class Decoded:
    """One pass over the records; ``seen`` has its counts once the rows were written."""

    rows: DataFrame
    dead: DataFrame
    seen: Observation


def decode(records: DataFrame, subject: Subject, table_schema: Schema) -> Decoded:
    judged = (
        records.withColumn("schema_id", avro.schema_id(subject))
        .withColumn("decoded", avro.decoded_value(subject))
        .withColumn("problem", avro.problem(F.col("decoded"), F.col("schema_id")))
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
        rows=good.select(*_columns(subject, table_schema)),
        dead=judged.filter(F.col("problem").isNotNull()),
        seen=seen,
    )


def _columns(subject: Subject, table_schema: Schema) -> list[Column]:
    """The table's columns, in its order. One that the newest schema has dropped is NULL from now on."""
    known = avro.field_names(subject.latest.text)
    return [_column(field, known) for field in table_schema.fields]


def _column(field: NestedField, known: frozenset[str]) -> Column:
    if field.name == KAFKA_COLUMN:
        place = ("partition", "offset", "timestamp", "key", "headers", "schema_id")
        return F.struct(*(F.col(name) for name in place)).alias(KAFKA_COLUMN)
    if field.name in known:
        return F.col("decoded").getField(field.name).alias(field.name)
    return F.lit(None).cast(spark_type(field.field_type)).alias(field.name)
