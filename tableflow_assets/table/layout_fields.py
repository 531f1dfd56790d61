"""The settings' `partition_by` and `sort_by` as Iceberg's partition fields and sort fields."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import (
    UNSORTED_SORT_ORDER,
    NullOrder,
    SortDirection,
    SortField,
    SortOrder,
)
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TimeTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import NestedField, StructType

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.decode.column_names import KAFKA_COLUMN, column_name
from tableflow_assets.settings.layout_terms import (
    Column,
    PartitionTerm,
    partition_term,
    shown,
    sort_term,
)
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.schema_diff import type_text

# No column can have these names: fields of values that begin with `_kafka` are refused.
WINDOW_FIELD, KEY_BUCKET = "_kafka_window", "_kafka_key_bucket"
TIMESTAMP, KEY_HASH = (KAFKA_COLUMN, "timestamp"), (KAFKA_COLUMN, "key_hash")
# Set on tables whose windows go by a column other than Kafka's timestamp.
TIME_PROPERTY = "tableflow.event_time"
_WITHOUT_NUMBER: dict[str, Transform[Any, Any]] = {
    "identity": IdentityTransform(),
    "hours": HourTransform(),
    "days": DayTransform(),
    "months": MonthTransform(),
    "years": YearTransform(),
}
COLUMNS_TO_NAME = 20  # at most, in an error


def time_column(table: Table) -> Column:
    """The column that decides which window a row is in."""
    name = table.properties.get(TIME_PROPERTY)
    return (name,) if name else TIMESTAMP


def partition_fields(
    topic: ManagedTable, schema: Schema, earlier: Sequence[PartitionField]
) -> list[PartitionField]:
    """``earlier``: the fields that the table has had so far: equal ones are reused, their names avoided."""
    next_id = count(
        max((field.field_id + 1 for field in earlier), default=PARTITION_FIELD_ID_START)
    )
    fields: list[PartitionField] = []
    for text, term in _terms(topic):
        source = _field(topic, schema, term.column, text)
        transform = _transform(topic, term)
        _refuse_duplicates(topic, source, transform, fields, text)
        if not transform.can_transform(source.field_type):
            raise _wrong_type(topic, text, term.column, source)
        matches = [f for f in earlier if (f.source_id, f.transform) == (source.field_id, transform)]
        if matches:
            fields.append(matches[0])
            continue
        used_names = {field.name.lower() for field in chain(earlier, fields)}
        name = _free_name(_usual_name(topic, term), schema, source, transform, used_names)
        fields.append(PartitionField(source.field_id, next(next_id), transform, name))
    return fields


def sort_order(topic: ManagedTable, schema: Schema) -> SortOrder:
    fields = []
    for text in topic.sort_by:
        term = sort_term(text)
        source = _field(topic, schema, term.column, text)
        if not source.field_type.is_primitive:
            raise _wrong_type(topic, text, term.column, source)
        # NULLs where Spark puts them: first in ascending order, last in descending.
        direction, nulls = SortDirection.ASC, NullOrder.NULLS_FIRST
        if term.descending:
            direction, nulls = SortDirection.DESC, NullOrder.NULLS_LAST
        fields.append(SortField(source_id=source.field_id, direction=direction, null_order=nulls))
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def field_at(schema: Schema, column: Column) -> NestedField | None:
    """The column at this path, by its own name or by the name of the field in the registry."""
    field: NestedField | None = None
    struct = schema.as_struct()
    for name in column:
        if field is not None:
            if not isinstance(field.field_type, StructType):
                return None
            struct = field.field_type
        by_name = {child.name: child for child in struct.fields}
        field = by_name.get(name) or by_name.get(column_name(name))
        if field is None:
            return None
    return field


def _terms(topic: ManagedTable) -> Iterator[tuple[str, PartitionTerm]]:
    if topic.is_keyed:
        yield "key_buckets", PartitionTerm("bucket", KEY_HASH, topic.key_buckets)
        return
    for text in topic.partition_by:
        term = partition_term(text)
        yield text, term._replace(column=TIMESTAMP) if term.transform == "window" else term


def _transform(topic: ManagedTable, term: PartitionTerm) -> Transform[Any, Any]:
    if term.transform == "window":
        return _WITHOUT_NUMBER[f"{topic.window}s"]
    if term.transform == "bucket":
        return BucketTransform(term.number)
    if term.transform == "truncate":
        return TruncateTransform(term.number)
    return _WITHOUT_NUMBER[term.transform]


def _usual_name(topic: ManagedTable, term: PartitionTerm) -> str:
    """The name Iceberg's tools would give the field, in characters that every engine accepts."""
    if term.transform == "window":
        return WINDOW_FIELD
    if topic.is_keyed:
        return f"{KEY_BUCKET}_{term.number}"
    column = re.sub(r"[^A-Za-z0-9_]", "_", "_".join(term.column))
    column = f"_{column}" if column[0].isdigit() else column
    endings = {
        **{"days": "_day", "hours": "_hour", "months": "_month", "years": "_year"},
        **{"bucket": f"_bucket_{term.number}", "truncate": f"_trunc_{term.number}"},
    }
    return column + endings.get(term.transform, "")


def _free_name(
    usual: str,
    schema: Schema,
    source: NestedField,
    transform: Transform[Any, Any],
    used_names: set[str],
) -> str:
    """Iceberg lets a partition field share a column's name only if it is that column, unchanged."""
    columns = {field.name.lower(): field for field in schema.fields}
    for number in count(1):
        name = usual if number == 1 else f"{usual}_{number}"
        column = columns.get(name.lower())
        is_that_column = column == source and isinstance(transform, IdentityTransform)
        if name.lower() not in used_names and (column is None or is_that_column):
            return name
    raise AssertionError("unreachable")


def _field(topic: ManagedTable, schema: Schema, column: Column, text: str) -> NestedField:
    if (field := field_at(schema, column)) is not None:
        return field
    # The part of the path that does exist shows where the mistake is.
    depth = next(n for n in range(len(column), -1, -1) if not n or field_at(schema, column[:n]))
    outer = field_at(schema, column[:depth]) if depth else None
    inside = outer.field_type if outer else schema.as_struct()
    if not isinstance(inside, StructType):
        raise _unusable(
            topic, text, f"{shown(column[:depth])} is not a struct, it is {type_text(inside)}"
        )
    names = [child.name for child in inside.fields]
    close_names = difflib.get_close_matches(column[depth], names, n=1)
    listing = ", ".join(shown((name,)) for name in names[:COLUMNS_TO_NAME])
    more = f" and {len(names) - COLUMNS_TO_NAME} more" if len(names) > COLUMNS_TO_NAME else ""
    where = f"{shown(column[:depth])} has" if depth else "the table has"
    hint = f" Did you mean {shown(tuple(close_names))}?" if close_names else ""
    why = f"there is no column {shown(column)}"
    raise _unusable(topic, text, why, f"{where}: {listing}{more}.{hint}")


def _refuse_duplicates(
    topic: ManagedTable,
    source: NestedField,
    transform: Transform[Any, Any],
    previous: list[PartitionField],
    text: str,
) -> None:
    """Iceberg refuses two such fields: the finer one implies the other."""
    for field in previous:
        is_same_source = field.source_id == source.field_id
        if is_same_source and field.transform == transform:
            raise _unusable(topic, text, "another term says the same", "Keep one of them.")
        if is_same_source and all(
            isinstance(t, TimeTransform) for t in (field.transform, transform)
        ):
            why = "another term is a time of the same column"
            raise _unusable(topic, text, why, "Keep the finer one.")


def _wrong_type(
    topic: ManagedTable, text: str, column: Column, source: NestedField
) -> SettingsError:
    return _unusable(topic, text, f"{shown(column)} is of type {type_text(source.field_type)}")


def _unusable(topic: ManagedTable, text: str, why: str, next_step: str = "") -> SettingsError:
    return SettingsError(
        f"The table of {topic.name!r} cannot be laid out by {text!r}: {why}.",
        next_step or "Choose another transform or column in `partition_by` and `sort_by`.",
    )
