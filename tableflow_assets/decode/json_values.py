"""JSON values as columns: what Spark reads them as, what becomes of that, and what does not fit.

Spark is asked for the type that it reads most strictly, which is not always the column's: it would
take a number for a time, guess at dates, and mean seconds by whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from tableflow_assets.decode.json_shape import Leaf, ListOf, MapOf, Property, Shape, Struct

_READ_AS: dict[Leaf, DataType] = {
    Leaf.BOOLEAN: BooleanType(),
    Leaf.INT: IntegerType(),
    Leaf.LONG: LongType(),
    Leaf.FLOAT: FloatType(),
    Leaf.DOUBLE: DoubleType(),
    Leaf.STRING: StringType(),
    Leaf.DATE: StringType(),  # a number's text is never a date
    Leaf.TIMESTAMP: StringType(),
    Leaf.BYTES: BinaryType(),
    Leaf.EPOCH_DAYS: IntegerType(),
    Leaf.EPOCH_MILLIS: LongType(),
    Leaf.JSON: VariantType(),
    Leaf.NULL: VariantType(),
}
_AS_READ = (
    *(Leaf.BOOLEAN, Leaf.INT, Leaf.LONG, Leaf.FLOAT, Leaf.DOUBLE),
    *(Leaf.STRING, Leaf.BYTES),
)
# What stands where in the text of a day, and of a moment.
_DATE = {5: "-", 8: "-"}
_DATE_TIME = {**_DATE, 11: "Tt ", 14: ":", 17: ":"}
_DATE_END, _SECONDS_END = 10, 19
_AFTER_SECONDS = "0123456789.:+-Zz"
_MOST_MILLIS = (2**63 - 1) // 1000


def read_as(shape: Shape, *, strings_as_variants: bool = False) -> DataType:
    """``strings_as_variants``: to know for certain which of its strings are strings."""
    inner = partial(read_as, strings_as_variants=strings_as_variants)
    if isinstance(shape, Struct):
        return StructType([StructField(each.key, inner(each.shape)) for each in shape.properties])
    if isinstance(shape, ListOf):
        return ArrayType(inner(shape.element))
    if isinstance(shape, MapOf):
        return MapType(StringType(), inner(shape.value))
    return VariantType() if strings_as_variants and shape is Leaf.STRING else _READ_AS[shape]


def typed(shape: Shape, read: Column) -> Column:
    """As the column has it; of what is a ``misfit``, anything."""
    if _is_as_read(shape):
        return read
    if isinstance(shape, Struct):
        fields = [
            typed(each.shape, _of(read, each)).alias(each.column) for each in shape.properties
        ]
        return F.when(read.isNotNull(), F.struct(*fields))
    if isinstance(shape, ListOf):
        return F.transform(read, lambda element: typed(shape.element, element))
    if isinstance(shape, MapOf):
        return F.transform_values(read, lambda _, value: typed(shape.value, value))
    return _typed_leaf(shape, read)


def _typed_leaf(leaf: Leaf, read: Column) -> Column:
    if leaf is Leaf.DATE:
        return read.try_cast("date")
    if leaf is Leaf.TIMESTAMP:
        return _timestamp(read)
    if leaf is Leaf.EPOCH_DAYS:
        return F.date_from_unix_date(read)
    if leaf is Leaf.EPOCH_MILLIS:
        return F.when(F.abs(read) <= _MOST_MILLIS, F.timestamp_micros(read * 1000))
    return F.when(~F.is_variant_null(read), F.to_json(read))


def _timestamp(text: Column) -> Column:
    """Without an offset it is in UTC, whatever the session's time zone."""
    after = F.substr(text, F.lit(_SECONDS_END + 1))
    ends = [F.endswith(text, F.lit(zone)) for zone in "Zz"]
    has_offset = reduce(or_, [*ends, *(F.contains(after, F.lit(sign)) for sign in "+-")])
    in_utc = F.when(has_offset, text).otherwise(F.concat(text, F.lit("Z")))
    return F.upper(in_utc).try_cast("timestamp")


def _has_shape(text: Column, shape: Mapping[int, str]) -> Column:
    """Whether these characters stand at these places; Spark's cast sees to the digits.

    No regular expression: that would take longer than all the rest of the record.
    """
    places = [F.substr(text, F.lit(n), F.lit(1)).isin(*known) for n, known in shape.items()]
    return reduce(and_, places)


def _is_date(text: Column) -> Column:
    return (F.length(text) == _DATE_END) & _has_shape(text, _DATE)


def _is_timestamp(text: Column) -> Column:
    after = F.substr(text, F.lit(_SECONDS_END + 1))
    is_over = F.length(F.translate(after, _AFTER_SECONDS, "")) == 0
    is_whole = is_over & ~F.startswith(F.upper(after), F.lit(".Z"))
    return (F.length(text) >= _SECONDS_END) & _has_shape(text, _DATE_TIME) & is_whole


def misfit(shape: Shape, read: Column, text: Column) -> Column | None:
    """Whether something in it is of the type that was asked for, but still not what the shape says.

    ``text`` is that of the whole document. None: that cannot be.
    """
    if isinstance(shape, Struct):
        return _any(misfit(each.shape, _of(read, each), text) for each in shape.properties)
    if isinstance(shape, ListOf):
        return _any([_any_element(shape.element, read, text)])
    if isinstance(shape, MapOf):
        has_a_key_twice = F.size(F.array_distinct(F.map_keys(read))) < F.size(read)
        return _any([has_a_key_twice, _any_element(shape.value, F.map_values(read), text)])
    return _misfit_leaf(shape, read, text)


def _any_element(shape: Shape, elements: Column, text: Column) -> Column | None:
    if misfit(shape, elements, text) is None:
        return None

    def is_misfit(element: Column) -> Column:
        found = misfit(shape, element, text)
        return F.lit(False) if found is None else found

    return F.exists(elements, is_misfit)


def _misfit_leaf(leaf: Leaf, read: Column, text: Column) -> Column | None:
    if leaf in (Leaf.FLOAT, Leaf.DOUBLE):
        return F.abs(read) == float("inf")
    if leaf in (Leaf.JSON, Leaf.NULL):
        # A number beyond all doubles is written as this string, which the document does not have.
        is_infinite = F.contains(F.to_json(read), F.lit('Infinity"'))
        return is_infinite & ~F.contains(text, F.lit("Infinity"))
    if leaf in (*_AS_READ, Leaf.EPOCH_DAYS):
        return None
    is_none = typed(leaf, read).isNull()
    if leaf is Leaf.DATE:
        is_none = is_none | ~_is_date(read)
    if leaf is Leaf.TIMESTAMP:
        is_none = is_none | ~_is_timestamp(read)
    return read.isNotNull() & is_none


def might_be_no_string(shape: Shape, read: Column) -> Column | None:
    """Whether what was read as text somewhere in it may have been a number, an object …

    Spark does not tell. Mostly it is the text that shows at once that it was none of these.
    """
    if isinstance(shape, Struct):
        return _any(might_be_no_string(each.shape, _of(read, each)) for each in shape.properties)
    if isinstance(shape, ListOf | MapOf):
        inner = shape.element if isinstance(shape, ListOf) else shape.value
        values = read if isinstance(shape, ListOf) else F.map_values(read)
        if might_be_no_string(inner, values) is None:
            return None
        return F.exists(values, lambda value: might_be_no_string(inner, value))  # type: ignore[arg-type,return-value]
    if shape is not Leaf.STRING:
        return None
    first = F.substr(read, F.lit(1), F.lit(1))
    is_number = first.isin(*"-0123456789") & read.try_cast("double").isNotNull()
    return F.coalesce(first.isin("{", "[") | read.isin("true", "false") | is_number, F.lit(False))


def is_no_string(shape: Shape, variants: Column) -> Column:
    """Of what was read with ``strings_as_variants``: is one of them something else?"""
    if isinstance(shape, Struct):
        parts = [is_no_string(each.shape, _of(variants, each)) for each in shape.properties]
        return reduce(or_, parts, F.lit(False))
    if isinstance(shape, ListOf):
        found = F.exists(variants, lambda element: is_no_string(shape.element, element))
    elif isinstance(shape, MapOf):
        values = F.map_values(variants)
        found = F.exists(values, lambda value: is_no_string(shape.value, value))
    elif shape is Leaf.STRING:
        found = ~F.schema_of_variant(variants).isin("STRING", "VOID")
    else:
        return F.lit(False)
    return F.coalesce(found, F.lit(False))


def _is_as_read(shape: Shape) -> bool:
    if isinstance(shape, Struct):
        return all(each.key == each.column and _is_as_read(each.shape) for each in shape.properties)
    if isinstance(shape, ListOf):
        return _is_as_read(shape.element)
    return _is_as_read(shape.value) if isinstance(shape, MapOf) else shape in _AS_READ


def _of(read: Column, property_: Property) -> Column:
    return read.getField(property_.key)


def _any(conditions: Iterator[Column | None] | list[Column | None]) -> Column | None:
    possible = [condition for condition in conditions if condition is not None]
    return reduce(or_, possible) if possible else None
