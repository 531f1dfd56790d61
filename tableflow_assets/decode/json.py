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
from pyspark.sql.types import StringType as SparkString

from tableflow_assets.decode import framing, json_document, json_values
from tableflow_assets.decode.columns import ColumnBuilder
from tableflow_assets.decode.json_schema import JsonSchemas
from tableflow_assets.decode.json_shape import Shape, Struct, type_of
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.source.subject import Subject

DOES_NOT_FIT = "json_does_not_fit_schema"
_ONLY_A_DOUBLE = r"(?:\A|[:,\[])\s*-?(?:[0-9.]{39}|[0-9]+(?:\.[0-9]+)?[eE])"
_ESCAPED_SURROGATE = r"\\u[dD][89a-fA-F]"
_BACKSLASH_OR_PAIR = r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"


class Json(Serialization):
    """Any JSON value; its column holds the text as it was sent."""

    def type(self, builder: ColumnBuilder) -> IcebergType:
        return StringType()

    def parse(self, data: Column) -> Column:
        text = data.cast("string")
        return F.struct(text.alias("text"), _as_anything(text).alias("document"))

    def problem(self, data: Column, read: Column) -> Column:
        return (
            F.when(F.length(data) == 0, "empty")
            .when(~F.is_valid_utf8(read.getField("text")), "invalid_utf8")
            .when(
                data.isNotNull() & ~json_document.fits(read.getField("document")), "malformed_json"
            )
        )

    def typed(self, read: Column) -> Column:
        return read.getField("text")

    def identity(self, data: Column, read: Column) -> Column:
        return _identity(data)


class JsonWithSchema(Serialization):
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
        kind = json_values.read_as(self._shape)
        first = json_document.parsed(json_document.around(_text(data)), kind)
        # Spark takes no 1.0 for a whole number. In one spelling it is 1.
        misfit = json_document.misfit(first)
        rewritten = F.coalesce(_in_one_spelling(misfit), misfit)
        second = F.when(misfit.isNotNull(), json_document.parsed(rewritten, kind))
        return F.struct(first.alias("first"), second.alias("second"))

    def read(self, parsed: Column) -> Column:
        document = F.coalesce(parsed.getField("second"), parsed.getField("first"))
        return F.struct(
            json_document.value(document).alias("value"), json_document.fits(document).alias("fits")
        )

    def problem(self, data: Column, read: Column) -> Column:
        text = _text(data)
        return (
            framing.framing_problem(data, self.subject)
            .when(~F.is_valid_utf8(text), "invalid_utf8")
            .when(self._does_not_fit(read, text), DOES_NOT_FIT)
            .when(_has_half_a_character(text), "invalid_utf8")
        )

    def refined(self, data: Column, problem: Column) -> Column:
        is_json = json_document.fits(_as_anything(_text(data)))
        return F.when((problem == DOES_NOT_FIT) & ~is_json, "malformed_json").otherwise(problem)

    def _does_not_fit(self, read: Column, text: Column) -> Column:
        value = read.getField("value")
        found = ~read.getField("fits")
        if self.is_record:
            found = found | value.isNull()
        if (misfit := json_values.misfit(self._shape, value, text)) is not None:
            found = found | misfit
        if (suspicious := json_values.might_be_no_string(self._shape, value)) is not None:
            found = found | (suspicious & self._has_no_string(text))
        return found

    def _has_no_string(self, text: Column) -> Column:
        """Spark takes anything for a string: here it is read once more, as what it is."""
        kind = json_values.read_as(self._shape, strings_as_variants=True)
        read = json_document.parsed(json_document.around(text), kind)
        return json_values.is_no_string(self._shape, json_document.value(read))

    def typed(self, read: Column) -> Column:
        return json_values.typed(self._shape, read.getField("value"))

    def identity(self, data: Column, read: Column) -> Column:
        return _identity(framing.body(data))

    def schema_id(self, data: Column) -> Column:
        return framing.known_id(data, self.subject)


def _text(framed: Column) -> Column:
    return framing.body(framed).cast("string")


def _as_anything(text: Column) -> Column:
    return json_document.parsed(json_document.around(text), SparkString())


def _identity(body: Column) -> Column:
    text = body.cast("string")
    in_one_spelling = F.when(~text.rlike(_ONLY_A_DOUBLE), _in_one_spelling(text))
    return F.coalesce(in_one_spelling.cast("binary"), body)


def _in_one_spelling(text: Column) -> Column:
    """Null where it is no JSON, or where an object has a property twice."""
    return F.to_json(F.try_parse_json(text))


def _has_half_a_character(text: Column) -> Column:
    r"""`"\ud83d"` alone is correct JSON, but no text: Spark would make a question mark of it."""
    without_pairs = F.regexp_replace(text, _BACKSLASH_OR_PAIR, "")
    return F.contains(text, F.lit("\\u")) & without_pairs.rlike(_ESCAPED_SURROGATE)
