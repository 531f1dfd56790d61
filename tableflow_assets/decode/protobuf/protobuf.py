"""Confluent-framed Protobuf: whole Arrow batches, decoded in Spark's Python workers.

A worker gets compiled schemas and imports `decode/protobuf/decoder.py` with numpy, pyarrow, protobuf and
ptars: these, and this package, have to be installed where Spark's workers run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from pyiceberg.types import IcebergType, StructType
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from tableflow_assets.decode import framing
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.conform import spark_type
from tableflow_assets.decode.protobuf.decoder import PROBLEM, ROW, ProtobufDecoder
from tableflow_assets.decode.protobuf.schema import ProtobufSchemas
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import Subject


class Protobuf(Serialization):
    """Messages of one type: by default the first of the newest version."""

    subject: Subject
    identity_kind = "protobuf"

    def __init__(self, subject: Subject, message: str | None = None) -> None:
        self.subject = subject
        self._message = message

    @cached_property
    def schemas(self) -> ProtobufSchemas:
        versions = [(v.schema_id, v.text, dict(v.references)) for v in self.subject.versions]
        return ProtobufSchemas(self.subject.name, versions, self._message)

    @property
    def is_record(self) -> bool:
        return True

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return StructType(*self.schemas.columns(builder))

    def parse(self, data: Column) -> Column:
        decoder = ProtobufDecoder(self.schemas.shape, self.schemas.versions)
        row = spark_type(self.type(ColumnBuilder(self.subject.name)))
        # The decoder's own method: a function of this module would make the worker import all of it.
        kind = f"struct<{ROW}: {row}, {PROBLEM}: string>"
        decode: Callable[[Column], Column] = arrow_udf(decoder.read, kind)  # type: ignore[call-overload]
        return decode(data)

    def problem(self, data: Column, parsed: Column) -> Column:
        return framing.framing_problem(data, self.subject).otherwise(parsed.getField(PROBLEM))

    def typed(self, parsed: Column) -> Column:
        return parsed.getField(ROW)

    def identity(self, data: Column, parsed: Column) -> Column:
        """Message indexes and message: Protobuf leaves defaults out, so a key has the same bytes in a
        version with more fields."""
        return framing.body(data)

    def schema_id(self, data: Column) -> Column:
        return framing.known_id(data, self.subject)
