"""JSON, decoded in the JVM: with a schema of the registry in Confluent's framing, or without any.

Two keys are equal if their JSON is: the order of an object's properties and white space do not matter,
and `1.0` is `1`. If a number fits only a double (over 38 digits, or with an exponent), or an object has
a property twice, the bytes must be equal.

With a schema, a record is read as the merged shape of all versions, whichever version it names: JSON
carries the names of its properties. A whole number may have a fraction of zeros, but no exponent. In a
column of JSON text, properties are sorted, and a number of more than 38 digits is rounded.
"""

from __future__ import annotations

from functools import cached_property

from pyiceberg.types import IcebergType, StringType
from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode import framing
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.json.function import read_json
from tableflow_assets.decode.json.schema import JsonSchemas
from tableflow_assets.decode.json.shape import Shape, Struct, type_of
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import Subject

_ONLY_A_DOUBLE = r"(?:\A|[:,\[])\s*-?(?:[0-9.]{39}|[0-9]+(?:\.[0-9]+)?[eE])"


class _Json(Serialization):
    """Read by one function, which returns the value and the problem."""

    def typed(self, parsed: Column) -> Column:
        return parsed.getField("value")


class Json(_Json):
    """Any JSON value; its column holds the text as it was sent."""

    identity_kind = "json"

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return StringType()

    def parse(self, data: Column) -> Column:
        return read_json(data, None, header_bytes=0)

    def problem(self, data: Column, parsed: Column) -> Column:
        return F.when(F.length(data) == 0, "empty").otherwise(parsed.getField("problem"))

    def identity(self, data: Column, parsed: Column) -> Column:
        return _identity(data)


class JsonWithSchema(_Json):
    """JSON written with any version of one subject."""

    subject: Subject
    identity_kind = "json_schema"

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @cached_property
    def _shape(self) -> Shape:
        versions = self.subject.versions
        references = [dict(version.references) for version in versions]
        return JsonSchemas(
            self.subject.name, [version.text for version in versions], references
        ).shape

    @property
    def is_record(self) -> bool:
        return isinstance(self._shape, Struct)

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return type_of(self._shape, builder)

    def parse(self, data: Column) -> Column:
        return read_json(data, self._shape, framing.HEADER_BYTES)

    def problem(self, data: Column, parsed: Column) -> Column:
        return framing.framing_problem(data, self.subject).otherwise(parsed.getField("problem"))

    def identity(self, data: Column, parsed: Column) -> Column:
        return _identity(framing.body(data))

    def schema_id(self, data: Column) -> Column:
        return framing.known_id(data, self.subject)


def _identity(body: Column) -> Column:
    text = body.cast("string")
    canonical = F.when(~text.rlike(_ONLY_A_DOUBLE), _canonical(text))
    return F.coalesce(canonical.cast("binary"), body)


def _canonical(text: Column) -> Column:
    """Null if it is not JSON, or if an object has a property twice."""
    return F.to_json(F.try_parse_json(text))
