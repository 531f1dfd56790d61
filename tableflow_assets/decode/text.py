"""Whether the strings in a value are really text.

Avro's decoder and Spark's strings accept any bytes. Written to Parquet, invalid ones would make the
whole file unreadable to every other engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from pyiceberg.types import IcebergType, ListType, MapType, StringType, StructType
from pyspark.sql import Column
from pyspark.sql import functions as F

_SEPARATOR = " "  # never part of a multi-byte character: joining cannot make bad bytes valid


def is_text(value: Column, kind: IcebergType) -> Column:
    """Whether every string in it, however deep, is valid UTF-8; true also where there is none.

    They are joined and checked as one text: much cheaper than one by one.
    """
    strings = list(_strings(value, kind))
    return F.is_valid_utf8(F.concat_ws(_SEPARATOR, *strings)) if strings else F.lit(True)


def _strings(value: Column, kind: IcebergType) -> Iterator[Column]:
    """Columns of strings, or of arrays of strings, both of which ``concat_ws`` accepts."""
    if isinstance(kind, StringType):
        yield value
    elif isinstance(kind, StructType):
        for field in kind.fields:
            yield from _strings(value.getField(field.name), field.field_type)
    elif isinstance(kind, ListType):
        yield from _strings_of_each(value, kind.element_type)
    elif isinstance(kind, MapType):
        yield from _strings_of_each(F.map_keys(value), kind.key_type)
        yield from _strings_of_each(F.map_values(value), kind.value_type)


def _strings_of_each(values: Column, kind: IcebergType) -> Iterator[Column]:
    if isinstance(kind, StringType):
        yield values
    elif isinstance(kind, StructType):
        for field in kind.fields:  # a field of an array of structs is an array
            yield from _strings_of_each(values.getField(field.name), field.field_type)
    elif any(True for _ in _strings(values, kind)):
        yield F.transform(values, lambda value: F.concat_ws(_SEPARATOR, *_strings(value, kind)))
