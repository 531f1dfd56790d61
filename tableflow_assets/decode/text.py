"""Is what calls itself a string really text?

Avro's decoder, and Spark's strings, take any bytes. Written to Parquet, they would make the whole
file unreadable to every other engine.
"""

from __future__ import annotations

from functools import reduce
from operator import and_

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, StringType, StructType
from pyspark.sql import Column
from pyspark.sql import functions as F

from tableflow_assets.decode.types import KAFKA_COLUMN


def all_text(decoded: Column, schema: Schema) -> Column:
    """True where every string of a decoded value, however deep, is valid UTF-8."""
    fields = [field for field in schema.fields if field.name != KAFKA_COLUMN]
    return _is_text(decoded, StructType(*fields))


def _is_text(value: Column, kind: IcebergType) -> Column:
    """True also where there is nothing: NULL is no bad text."""
    if not _has_text(kind):
        return F.lit(True)
    if isinstance(kind, StructType):
        checks = [_is_text(value.getField(f.name), f.field_type) for f in kind.fields]
        return reduce(and_, checks)
    if isinstance(kind, ListType):
        return _each(value, kind.element_type)
    if isinstance(kind, MapType):
        keys = _each(F.map_keys(value), kind.key_type)
        return keys & _each(F.map_values(value), kind.value_type)
    return F.coalesce(F.is_valid_utf8(value), F.lit(True))


def _each(values: Column, kind: IcebergType) -> Column:
    return F.coalesce(F.forall(values, lambda value: _is_text(value, kind)), F.lit(True))


def _has_text(kind: IcebergType) -> bool:
    if isinstance(kind, StructType):
        return any(_has_text(field.field_type) for field in kind.fields)
    if isinstance(kind, ListType):
        return _has_text(kind.element_type)
    return isinstance(kind, StringType | MapType)
