"""A decoded value in the table's shape: fields that the newest schema has dropped are NULL."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, StructType
from pyspark.sql import Column
from pyspark.sql import functions as F

_SPARK_NAMES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}


def conformed(value: Column, source: IcebergType | None, target: IcebergType) -> Column:
    """``value``, of the type ``source``, as ``target``; without a source type it is NULL."""
    if source is None:
        return F.lit(None).cast(spark_type(target))
    if not _lacks_a_field(source, target):
        return value
    if isinstance(target, StructType) and isinstance(source, StructType):
        return _struct(value, source, target)
    if isinstance(target, ListType) and isinstance(source, ListType):
        inner = (source.element_type, target.element_type)
        return F.transform(value, lambda element: conformed(element, *inner))
    if isinstance(target, MapType) and isinstance(source, MapType):
        values = (source.value_type, target.value_type)
        return F.transform_values(value, lambda _, inner: conformed(inner, *values))
    return value


def _struct(value: Column, source: StructType, target: StructType) -> Column:
    kinds = {field.name: field.field_type for field in source.fields}
    fields = [
        conformed(value.getField(f.name), kinds.get(f.name), f.field_type).alias(f.name)
        for f in target.fields
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def _lacks_a_field(source: IcebergType, target: IcebergType) -> bool:
    if isinstance(target, StructType) and isinstance(source, StructType):
        kinds = {field.name: field.field_type for field in source.fields}
        return any(
            f.name not in kinds or _lacks_a_field(kinds[f.name], f.field_type)
            for f in target.fields
        )
    if isinstance(target, ListType) and isinstance(source, ListType):
        return _lacks_a_field(source.element_type, target.element_type)
    if isinstance(target, MapType) and isinstance(source, MapType):
        return _lacks_a_field(source.value_type, target.value_type)
    return False


def spark_type(kind: IcebergType) -> str:
    """An Iceberg type as Spark's SQL names it."""
    if isinstance(kind, StructType):
        fields = ", ".join(
            f"`{field.name.replace('`', '``')}`: {spark_type(field.field_type)}"
            for field in kind.fields
        )
        return f"struct<{fields}>"
    if isinstance(kind, ListType):
        return f"array<{spark_type(kind.element_type)}>"
    if isinstance(kind, MapType):
        return f"map<{spark_type(kind.key_type)}, {spark_type(kind.value_type)}>"
    return _SPARK_NAMES.get(str(kind), str(kind))
