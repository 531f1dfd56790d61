"""Confluent-framed Avro, decoded in the JVM: every record with the schema it was written with.

Each of the subject's schema ids is one branch of a CASE over the header, so a batch that mixes versions
is still read in one pass. Spark turns a body that is too short into a row of nulls, and ignores surplus
bytes. So a fixed marker is appended to every body, and the schemas end with a field for it: it comes
out whole only if the value before it had exactly the right length.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property

import pyarrow as pa
from pyiceberg.types import IcebergType, NestedField
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.pandas.functions import arrow_udf

from tableflow_assets.decode import framing
from tableflow_assets.decode.avro.schema import END_BYTES, AvroSchemas, flatten
from tableflow_assets.decode.columns import ColumnBuilder, Path
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.decode.text import is_text
from tableflow_assets.source.subject import RegisteredSchema, Subject

END = b"tableflow's end."
assert len(END) == END_BYTES  # noqa: S101  (a constant of this file)
# Spark plans every version as an expression of its own, with all columns of the table. Beyond so many,
# it is quicker to find out first which versions the records have.
MOST_BRANCHES = 10
# Spark's own formats stop at the millisecond, and depend on the session's time zone.
TO_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
}


class Avro(Serialization):
    identity_kind = "avro"

    def __init__(self, subject: Subject) -> None:
        self.subject: Subject = subject
        self._schemas = AvroSchemas(
            subject.name,
            [version.text for version in subject.versions],
            [dict(version.references) for version in subject.versions],
        )
        self._read_versions: frozenset[RegisteredSchema] = frozenset(subject.versions)

    @property
    def is_record(self) -> bool:
        return self._schemas.is_record

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return self._schemas.type(builder)

    def columns(self, builder: ColumnBuilder) -> list[NestedField]:
        if self.holds_nothing:
            return []
        return self._schemas.columns(builder) if self.is_record else super().columns(builder)

    @property
    def holds_nothing(self) -> bool:
        return self._schemas.holds_nothing

    def left_out(self) -> list[Path]:
        return self._schemas.left_out()

    def schema_id(self, data: Column) -> Column:
        return framing.known_id(data, self.subject)

    def for_records(self, records: DataFrame, column: str) -> Avro:
        if len(self.subject.versions) <= MOST_BRANCHES:
            return self
        versions = framing.versions_in(records, column, self.subject)
        narrowed = copy(self)
        narrowed._read_versions = frozenset(versions | {self.subject.latest})
        return narrowed

    def parse(self, data: Column) -> Column:
        has_text = self._schemas.has_text
        body = self._flattened(data) if has_text else framing.body(data)
        marked = F.concat(body, F.lit(END))
        writer = self._schemas.flattened_writer if has_text else self._schemas.writer
        options = {
            "avroSchema": self._schemas.reader,
            "mode": "PERMISSIVE",
            "enableStableIdentifiersForUnionType": "true",
        }
        branches = [
            (schema, from_avro(marked, writer(index), options))
            for index, schema in enumerate(self.subject.versions)
            if schema in self._read_versions
        ]
        return framing.by_version(data, branches)

    def problem(self, data: Column, parsed: Column) -> Column:
        is_whole = F.coalesce(parsed["end"] == F.lit(END), F.lit(False))
        return (
            framing.framing_problem(data, self.subject)
            .when(~is_whole, "malformed_avro")
            .when(~is_text(self.typed(parsed), self._type), "invalid_utf8")
        )

    def typed(self, parsed: Column) -> Column:
        return F.lit(None).cast("string") if self.holds_nothing else parsed["value"]

    def identity(self, data: Column, parsed: Column) -> Column:
        """Its content as JSON without nulls, the fields sorted by name.

        So a version that adds a nullable field, or moves one, does not change the keys.
        """
        content = F.to_json(F.struct(self.typed(parsed).alias("key")), TO_JSON)
        return F.to_json(F.parse_json(content)).cast("binary")  # Spark's VARIANT is sorted

    @cached_property
    def _type(self) -> IcebergType:
        return self.type(ColumnBuilder(self.subject.name))

    def _flattened(self, data: Column) -> Column:
        """What becomes text does so before Spark sees it: it has, for one, no recursive types."""
        schemas = self._schemas
        indexes = {version.schema_id: n for n, version in enumerate(self.subject.versions)}

        def flattened(framed: bytes | None) -> bytes | None:
            index = indexes.get(int.from_bytes((framed or b"")[1 : framing.HEADER_BYTES], "big"))
            if framed is None or index is None:
                return None
            return flatten(framed[framing.HEADER_BYTES :], schemas, index)

        def of_batch(batch: pa.Array) -> pa.Array:
            return pa.array([flattened(value) for value in batch.to_pylist()], pa.binary())

        flatten_batch: Callable[[Column], Column] = arrow_udf(of_batch, "binary")  # type: ignore[call-overload]
        return flatten_batch(data)
