"""An Iceberg type as Spark names it, for columns that only hold NULL from now on."""

from __future__ import annotations

from pyiceberg.types import IcebergType, ListType, MapType, StructType

_NAMES = {
    "long": "bigint",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
}


def spark_type(kind: IcebergType) -> str:
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
    return _NAMES.get(str(kind), str(kind))
