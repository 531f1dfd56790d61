"""Plain bytes and text, without a schema."""

from __future__ import annotations

from pyiceberg.types import BinaryType, IcebergType, StringType
from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.serialization import Serialization


class _Plain(Serialization):
    identity_kind = "bytes"

    def parse(self, data: Column) -> Column:
        return data

    def identity(self, data: Column, parsed: Column) -> Column:
        return data


class Raw(_Plain):
    """Any bytes, as they are."""

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return BinaryType()

    def problem(self, data: Column, parsed: Column) -> Column:
        return F.lit(None).cast("string")

    def typed(self, parsed: Column) -> Column:
        return parsed


class Text(_Plain):
    """UTF-8."""

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return StringType()

    def problem(self, data: Column, parsed: Column) -> Column:
        return F.when(~F.is_valid_utf8(data.cast("string")), "invalid_utf8")

    def typed(self, parsed: Column) -> Column:
        return parsed.cast("string")
