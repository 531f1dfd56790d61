"""What every serialization does: bytes in, a typed value or a named problem out.

A record's value and its key are each read by one of these. The steps are apart because of Spark, which
works out an expression anew wherever it is used: what ``parse`` makes becomes a column of its own, and the
cheap steps look at this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from pyiceberg.types import IcebergType, NestedField, StructType
from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.source.subject import Subject

VALUE_COLUMN = "value"  # the one column of a value that is no record


class Serialization(ABC):
    subject: Subject | None = None  # whose schemas it reads with, where it needs any

    @property
    def is_record(self) -> bool:
        """Whether a value has fields, which become columns; else it is one column itself."""
        return False

    @abstractmethod
    def type(self, builder: ColumnBuilder) -> IcebergType:
        """Of the typed value."""

    @abstractmethod
    def parse(self, data: Column) -> Column:
        """All that is to be found out about the bytes, in any form: the expensive step. Null for null."""

    @abstractmethod
    def problem(self, data: Column, read: Column) -> Column:
        """The class of what is wrong with the bytes (see `problems`); null where nothing is."""

    @abstractmethod
    def typed(self, read: Column) -> Column:
        """Of what was read: a value of ``type``. Of bytes with a problem, anything but an error."""

    @abstractmethod
    def identity(self, data: Column, read: Column) -> Column:
        """Of a key: bytes that are equal for equal keys, whatever version they were written with."""

    def schema_id(self, data: Column) -> Column:
        return F.lit(None).cast("int")

    def columns(self, builder: ColumnBuilder) -> list[NestedField]:
        """Of a table that holds such values."""
        kind = self.type(builder)
        if self.is_record and isinstance(kind, StructType):
            return list(kind.fields)
        return [builder.field(VALUE_COLUMN, kind)]

    def row(self, read: Column) -> Column:
        """A struct of ``columns``."""
        typed = self.typed(read)
        return typed if self.is_record else F.struct(typed.alias(VALUE_COLUMN))
