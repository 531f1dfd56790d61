"""Records in, rows and dead letters out."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tableflow_assets.decode import avro, keys
from tableflow_assets.decode.conform import conformed, spark_type
from tableflow_assets.decode.text import all_text
from tableflow_assets.decode.types import KAFKA_COLUMN, KEYED_MODES, table_schema
from tableflow_assets.settings_blocks import Mode
from tableflow_assets.source.registry import Subject

DELETED = "__tableflow_deleted"  # beside a keyed table's columns: this change removes its key's row
CDC_WRITES, CDC_DELETE = ("c", "u", "r"), "d"
PLACE = ("partition", "offset", "timestamp", "key", "headers", "schema_id")


@dataclass(frozen=True)
class Schemas:
    """What the registry knows of a topic; ``key`` is None where keys are plain bytes."""

    value: Subject
    key: Subject | None = None


@dataclass(frozen=True)
class Counts:
    records: int
    dead: int


def _counted() -> tuple[Column, Column]:
    return F.count(F.lit(1)).alias("records"), F.count("problem").alias("dead")


@dataclass(frozen=True)
class Decoded:
    """One pass over the records."""

    rows: DataFrame
    dead: DataFrame
    _judged: DataFrame
    _seen: Observation

    def counts(self) -> Counts:
        """To be asked once the rows were written: the same pass has counted them."""
        seen = self._seen.get
        if "dead" not in seen:  # a busy server now and then loses what it has observed
            seen = self._judged.agg(*_counted()).collect()[0].asDict()
        return Counts(seen["records"], seen["dead"])


def decode(records: DataFrame, schemas: Schemas, wanted: Schema, mode: Mode) -> Decoded:
    subject = schemas.value
    value, row = F.col("value"), _row(mode)
    newest = table_schema(subject.latest.text, subject.name, mode)
    judged = records.withColumn("schema_id", avro.schema_id(value, subject)).withColumn(
        "decoded", avro.decoded(value, subject)
    )
    if mode in KEYED_MODES:
        judged = judged.withColumn("key_hash", keys.key_hash(F.col("key"), schemas.key))
        # Of this record alone; what the table already knows of its key is added later.
        judged = judged.withColumn("key_timestamp", F.col("timestamp"))
    problem = _value_problem(mode, all_text(row, newest))
    if mode in KEYED_MODES:
        problem = F.coalesce(keys.key_problem(F.col("key"), schemas.key), problem)
    judged = judged.withColumn("problem", problem)
    seen = Observation()
    # The observation also keeps Spark from pushing the filter below it and decoding twice.
    counted = judged.observe(seen, *_counted())
    good = counted.filter(F.col("problem").isNull())
    return Decoded(
        rows=good.select(*_columns(row, newest, wanted, mode)),
        dead=judged.filter(F.col("problem").isNotNull()),
        _judged=judged,
        _seen=seen,
    )


def _row(mode: Mode) -> Column:
    decoded = F.col("decoded")
    return decoded.getField("after") if mode == "cdc" else decoded


def _value_problem(mode: Mode, is_text: Column) -> Column:
    """Why a record's value could not be decoded; null where it could, or need not be."""
    value, decoded = F.col("value"), F.col("decoded")
    # Only a table of plain records has no use for a null value: elsewhere it says "deleted".
    if mode == "append":
        checks = F.when(value.isNull(), "null_value")
    else:
        checks = F.when(value.isNull(), F.lit(None).cast("string"))
    checks = (
        checks.when(~avro.is_framed(value), "not_confluent_framed")
        .when(F.col("schema_id").isNull(), "unknown_schema_id")
        .when(decoded[avro.DECODED].isNull(), "malformed_avro")
    )
    if mode == "cdc":
        operation, after = decoded.getField("op"), decoded.getField("after")
        is_write = operation.isin(*CDC_WRITES)
        checks = checks.when(
            operation.isNull() | ~(is_write | (operation == CDC_DELETE)), "unknown_cdc_operation"
        ).when(is_write & after.isNull(), "cdc_write_without_after")
    return checks.when(~is_text, "invalid_utf8")


def _columns(row: Column, decoded: Schema, wanted: Schema, mode: Mode) -> list[Column]:
    """The table's columns, in its order."""
    have = {field.name: field.field_type for field in decoded.fields}
    is_keyed = mode in KEYED_MODES
    columns = []
    for field in wanted.fields:
        if field.name == KAFKA_COLUMN:
            column = F.struct(*_place(field.field_type, is_keyed))
        else:
            column = conformed(row.getField(field.name), have.get(field.name), field.field_type)
        columns.append(column.alias(field.name))
    return [*columns, _is_deletion(mode).alias(DELETED)] if is_keyed else columns


def _place(kafka: object, is_keyed: bool) -> list[Column]:
    """The fields of ``_kafka`` in the table's order; one that another mode left behind stays NULL."""
    return [
        F.col(field.name)
        if field.name in PLACE or is_keyed
        else F.lit(None).cast(spark_type(field.field_type)).alias(field.name)
        for field in kafka.fields  # type: ignore[attr-defined]
    ]


def _is_deletion(mode: Mode) -> Column:
    is_tombstone = F.col("value").isNull()
    if mode != "cdc":
        return is_tombstone
    return is_tombstone | F.coalesce(F.col("decoded").getField("op") == CDC_DELETE, F.lit(False))
