"""A decoded value in the table's shape: fields that the newest schema has dropped are NULL."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, StructType
from pyspark.sql import Column
from pyspark.sql import functions as F

_SPARK_NAMES = {"long": "bigint", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}


def conformed(value: Column, have: IcebergType | None, want: IcebergType) -> Column:
    """``value``, of the type ``have``, as ``want``; None: there is no such value any more."""
    if have is None:
        return F.lit(None).cast(spark_type(want))
    if not _lacks_a_field(have, want):
        return value
    if isinstance(want, StructType) and isinstance(have, StructType):
        return _struct(value, have, want)
    if isinstance(want, ListType) and isinstance(have, ListType):
        inner = (have.element_type, want.element_type)
        return F.transform(value, lambda element: conformed(element, *inner))
    if isinstance(want, MapType) and isinstance(have, MapType):
        values = (have.value_type, want.value_type)
        return F.transform_values(value, lambda _, inner: conformed(inner, *values))
    return value


def _struct(value: Column, have: StructType, want: StructType) -> Column:
    kinds = {field.name: field.field_type for field in have.fields}
    fields = [
        conformed(value.getField(f.name), kinds.get(f.name), f.field_type).alias(f.name)
        for f in want.fields
    ]
    return F.when(value.isNotNull(), F.struct(*fields))


def _lacks_a_field(have: IcebergType, want: IcebergType) -> bool:
    if isinstance(want, StructType) and isinstance(have, StructType):
        kinds = {field.name: field.field_type for field in have.fields}
        return any(
            f.name not in kinds or _lacks_a_field(kinds[f.name], f.field_type) for f in want.fields
        )
    if isinstance(want, ListType) and isinstance(have, ListType):
        return _lacks_a_field(have.element_type, want.element_type)
    if isinstance(want, MapType) and isinstance(have, MapType):
        return _lacks_a_field(have.value_type, want.value_type)
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
