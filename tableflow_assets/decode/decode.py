"""Records in, rows and dead letters out."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StructType
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tableflow_assets.decode import keys
from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN
from tableflow_assets.decode.conform import conformed, spark_type
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.types import KEYED_MODES, table_schema
from tableflow_assets.settings.blocks import Mode

__all__ = ["DELETED", "Counts", "Decoded", "Schemas", "decode"]

DELETED = "__tableflow_deleted"  # beside a keyed table's columns: this change removes its key's row
CDC_WRITES, CDC_DELETE = ("c", "u", "r"), "d"
# The results of parsing a record, beside its own columns.
READ_VALUE, READ_KEY = "__tableflow_value", "__tableflow_key"
PROBLEM = "__tableflow_problem"  # beside the columns of a row


@dataclass(frozen=True)
class Counts:
    records: int
    dead: int


def _count_columns(problem: str) -> tuple[Column, Column]:
    return F.count(F.lit(1)).alias("records"), F.count(problem).alias("dead")


@dataclass(frozen=True)
class Decoded:
    """One pass over the records."""

    rows: DataFrame
    dead: DataFrame
    _judged: DataFrame
    _observation: Observation

    def counts(self) -> Counts:
        """Only after the rows were written: that pass counts them."""
        counts = self._observation.get
        if "dead" not in counts:  # a busy server sometimes loses an observation
            counts = self._judged.agg(*_count_columns("problem")).collect()[0].asDict()
        return Counts(counts["records"], counts["dead"])


def decode(
    records: DataFrame, schemas: Schemas, target: Schema, mode: Mode, epoch: int = 0
) -> Decoded:
    """``epoch``: which of the logs that the table has read the records are from."""
    judged = judge(records, schemas, mode)
    observation = Observation()
    columns = [*_columns(schemas, target, mode, epoch), F.col("problem").alias(PROBLEM)]
    # The observation also keeps Spark from pushing the filter below it and decoding twice.
    counted = judged.select(*columns).observe(observation, *_count_columns(PROBLEM))
    return Decoded(
        rows=counted.filter(F.col(PROBLEM).isNull()).drop(PROBLEM),
        dead=judged.filter(F.col("problem").isNotNull()),
        _judged=judged,
        _observation=observation,
    )


def judge(records: DataFrame, schemas: Schemas, mode: Mode) -> DataFrame:
    """The records, each with its ``problem`` or null, its parsed key and its parsed value."""
    value, key = F.col("value"), F.col("key")
    is_keyed = mode in KEYED_MODES
    schemas = schemas.for_records(records)
    judged = (
        records.withColumn("schema_id", schemas.value.schema_id(value))
        .withColumn(READ_VALUE, schemas.value.parse(value))
        .withColumn(READ_KEY, schemas.key.parse(key))
    )
    key_problem = keys.key_problem(key, F.col(READ_KEY), schemas.key, is_needed=is_keyed)
    judged = judged.withColumn("problem", F.coalesce(key_problem, _value_problem(schemas, mode)))
    if not is_keyed:
        return judged
    # This record's own timestamp; that of the key's row in the table is considered later.
    identity = schemas.key.identity(key, F.col(READ_KEY))
    return judged.withColumn("key_hash", keys.hash_of(identity)).withColumn(
        "key_timestamp", F.col("timestamp")
    )


def _value_problem(schemas: Schemas, mode: Mode) -> Column:
    """Why a record's value could not be decoded; null where it could, or need not be."""
    value = F.col("value")
    problem = schemas.value.problem(value, F.col(READ_VALUE))
    if mode == "cdc":
        envelope = schemas.value.row(F.col(READ_VALUE))
        operation, after = envelope.getField("op"), envelope.getField("after")
        is_write = operation.isin(*CDC_WRITES)
        is_known = is_write | (operation == CDC_DELETE)
        envelope_problem = F.when(
            ~F.coalesce(is_known, F.lit(False)), "unknown_cdc_operation"
        ).when(is_write & after.isNull(), "cdc_write_without_after")
        problem = F.coalesce(problem, envelope_problem)
    # In a keyed table a null value means "deleted"; in any other it is a problem.
    null_problem = F.lit("null_value" if mode == "append" else None).cast("string")
    return F.when(value.isNull(), null_problem).otherwise(problem)


def _columns(schemas: Schemas, target: Schema, mode: Mode, epoch: int) -> list[Column]:
    """The table's columns, in its order."""
    newest = table_schema(schemas, mode)
    kinds = {field.name: field.field_type for field in newest.fields}
    row = schemas.value.row(F.col(READ_VALUE))
    if mode == "cdc":
        row = row.getField("after")
    columns = []
    for field in target.fields:
        if field.name == KAFKA_COLUMN:
            column = F.struct(*_place(schemas, target, newest, epoch))
        else:
            column = conformed(row.getField(field.name), kinds.get(field.name), field.field_type)
        columns.append(column.alias(field.name))
    return (
        [*columns, _is_deletion(schemas, mode).alias(DELETED)] if mode in KEYED_MODES else columns
    )


def _place(schemas: Schemas, target: Schema, newest: Schema, epoch: int) -> list[Column]:
    """The fields of ``_kafka`` in the table's order; a field left behind by another mode stays NULL."""
    kinds = {field.name: field.field_type for field in _kafka_fields(newest)}
    typed_key = {"decoded_key": schemas.key.typed(F.col(READ_KEY))}
    fields = []
    for field in _kafka_fields(target):
        if field.name in kinds:
            value = typed_key.get(field.name, F.col(field.name))
            column = conformed(value, kinds[field.name], field.field_type)
        else:
            constant = epoch or None if field.name == EPOCH_FIELD else None
            column = F.lit(constant).cast(spark_type(field.field_type))
        fields.append(column.alias(field.name))
    return fields


def _kafka_fields(schema: Schema) -> tuple[NestedField, ...]:
    kafka = schema.find_type(KAFKA_COLUMN)
    return kafka.fields if isinstance(kafka, StructType) else ()


def _is_deletion(schemas: Schemas, mode: Mode) -> Column:
    is_tombstone = F.col("value").isNull()
    if mode != "cdc":
        return is_tombstone
    operation = schemas.value.row(F.col(READ_VALUE)).getField("op")
    return is_tombstone | F.coalesce(operation == CDC_DELETE, F.lit(False))
