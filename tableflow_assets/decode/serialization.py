"""What every serialization does: bytes in, a typed value or a named problem out.

A record's value and its key are each read by one of these. Spark evaluates an expression again wherever
it is used, hence the separate steps: the result of ``parse`` becomes a column of its own, and the cheap
steps use that column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal

from pyiceberg.types import IcebergType, NestedField, StructType
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.source.subject import Subject

IdentityKind = Literal["bytes", "json", "avro", "json_schema", "protobuf"]
VALUE_COLUMN = "value"  # the single column of a value that is not a record


class Serialization(ABC):
    subject: Subject | None = None  # with the schemas that it needs, if any
    identity_kind: (
        IdentityKind  # of serializations of one kind, ``identity`` gives the same for a key
    )

    @property
    def is_record(self) -> bool:
        """Whether a value has fields, which become columns; otherwise it is a single column."""
        return False

    @property
    def holds_nothing(self) -> bool:
        """Whether all values are alike, so that there is nothing to keep of them."""
        return False

    def left_out(self) -> list[Path]:
        """The fields that have no column, because they can only be null."""
        return []

    @abstractmethod
    def type(self, builder: ColumnBuilder) -> IcebergType:
        """The type of the typed value."""

    def for_records(self, records: DataFrame, column: str) -> Serialization:
        """The same, for the values in this column of these records alone: it may need to read less."""
        return self

    @abstractmethod
    def parse(self, data: Column) -> Column:
        """Everything the other steps need from the bytes, in any form: the expensive step. Null for null."""

    @abstractmethod
    def problem(self, data: Column, parsed: Column) -> Column:
        """The class of what is wrong with the bytes (see `problems`), or null."""

    @abstractmethod
    def typed(self, parsed: Column) -> Column:
        """A value of ``type``. For bytes with a problem it may be anything, but never an error."""

    @abstractmethod
    def identity(self, data: Column, parsed: Column) -> Column:
        """For a key: bytes that are equal for equal keys, whatever version they were written with."""

    def schema_id(self, data: Column) -> Column:
        return F.lit(None).cast("int")

    def columns(self, builder: ColumnBuilder) -> list[NestedField]:
        """The columns of a table that holds such values."""
        kind = self.type(builder)
        if self.is_record and isinstance(kind, StructType):
            return list(kind.fields)
        return [builder.field(VALUE_COLUMN, kind)]

    def row(self, parsed: Column) -> Column:
        """A struct of ``columns``."""
        typed = self.typed(parsed)
        return typed if self.is_record else F.struct(typed.alias(VALUE_COLUMN))
