"""JSON, decoded in the JVM: with a schema of the registry in Confluent's framing, or without any.

Two keys are equal if their JSON is: the order of an object's properties and white space do not count,
and `1.0` is `1`. With numbers that only a double could hold (over 38 digits, or with an exponent), and
with a property that an object has twice, it is their bytes that must be equal.

With a schema, whatever version a record names, it is read as the shape of all versions together: JSON
brings the names of its properties along. A whole number may have a fraction of zeros, but no exponent.
In a column of JSON text, properties are sorted, and a number of more than 38 digits is rounded.
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
    """Read by one function, which finds out the value and the problem."""

    def typed(self, read: Column) -> Column:
        return read.getField("value")


class Json(_Json):
    """Any JSON value; its column holds the text as it was sent."""

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return StringType()

    def parse(self, data: Column) -> Column:
        return read_json(data, None, header_bytes=0)

    def problem(self, data: Column, read: Column) -> Column:
        return F.when(F.length(data) == 0, "empty").otherwise(read.getField("problem"))

    def identity(self, data: Column, read: Column) -> Column:
        return _identity(data)


class JsonWithSchema(_Json):
    """Of the versions of one subject."""

    subject: Subject

    def __init__(self, subject: Subject) -> None:
        self.subject = subject

    @cached_property
    def _shape(self) -> Shape:
        versions = self.subject.versions
        references = [dict(version.references) for version in versions]
        return JsonSchemas(self.subject.name, [each.text for each in versions], references).shape

    @property
    def is_record(self) -> bool:
        return isinstance(self._shape, Struct)

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return type_of(self._shape, builder)

    def parse(self, data: Column) -> Column:
        return read_json(data, self._shape, framing.HEADER_BYTES)

    def problem(self, data: Column, read: Column) -> Column:
        return framing.framing_problem(data, self.subject).otherwise(read.getField("problem"))

    def identity(self, data: Column, read: Column) -> Column:
        return _identity(framing.body(data))

    def schema_id(self, data: Column) -> Column:
        return framing.known_id(data, self.subject)


def _identity(body: Column) -> Column:
    text = body.cast("string")
    in_one_spelling = F.when(~text.rlike(_ONLY_A_DOUBLE), _in_one_spelling(text))
    return F.coalesce(in_one_spelling.cast("binary"), body)


def _in_one_spelling(text: Column) -> Column:
    """Null where it is no JSON, or where an object has a property twice."""
    return F.to_json(F.try_parse_json(text))
