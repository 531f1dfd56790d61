"""How rows are ordered when files are rewritten: from the settings to Iceberg's arguments."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IcebergType, StructType

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.operate.maintenance.procedure import literal
from tableflow_assets.settings.layout_terms import (
    Column,
    SortTerm,
    compaction,
    in_sql,
    shown,
    sort_term,
)
from tableflow_assets.settings.managed_table import ManagedTable

# Iceberg puts the sort value into a column of this name while it sorts.
ZORDER_COLUMN = "ICEZVALUE"


def arguments_of(strategy: str, topic: ManagedTable, table: Table) -> dict[str, str]:
    """The arguments of `rewrite_data_files`, as SQL."""
    try:
        chosen_strategy = compaction(strategy)
    except ValueError as error:
        raise SettingsError(str(error), "Give one of binpack, sort, zorder(a, b).") from error
    if chosen_strategy.strategy == "binpack":
        return {"strategy": "'binpack'"}
    if chosen_strategy.strategy == "sort":
        order = ", ".join(_in_order(table.schema(), term) for term in map(sort_term, topic.sort_by))
        if not order and not table.sort_order().fields:
            raise SettingsError(
                f"The table of {topic.name!r} has no order to sort it by.",
                "Set `sort_by` for the topic, or compact it with `binpack` or `zorder(a, b)`.",
            )
        return {"strategy": "'sort'", **({"sort_order": literal(order)} if order else {})}
    for column in chosen_strategy.columns:
        _refuse_in_zorder(table.schema(), column)
    order = f"zorder({', '.join(map(in_sql, chosen_strategy.columns))})"
    return {"strategy": "'sort'", "sort_order": literal(order)}


def sorts_all(strategy: str) -> bool:
    """Whether files that are large enough are rewritten too: rows are in order only across all files."""
    return strategy != "binpack"


def _in_order(schema: Schema, term: SortTerm) -> str:
    _type_of(schema, term.column)
    return f"{in_sql(term.column)} {'DESC' if term.descending else 'ASC'}"


def _type_of(schema: Schema, column: Column) -> IcebergType:
    kind: IcebergType = schema.as_struct()
    for name in column:
        fields = kind.fields if isinstance(kind, StructType) else ()
        match = next((field for field in fields if field.name == name), None)
        if match is None:
            names = ", ".join(field.name for field in schema.fields)
            raise SettingsError(
                f"The table has no column {shown(column)}.", f"Its columns are: {names}."
            )
        kind = match.field_type
    return kind


def _refuse_in_zorder(schema: Schema, column: Column) -> None:
    """Raise early: Iceberg reports what its z-order cannot read late, and in Java."""
    kind, why = _type_of(schema, column), ""
    if len(column) > 1 or not kind.is_primitive:
        why = "only columns of their own, of a simple type, can be in a z-order"
    elif "." in column[0] or "`" in column[0]:
        why = "Iceberg's z-order does not take a name with a dot or a backtick"
    elif any(field.name == ZORDER_COLUMN for field in schema.fields):
        why = f"Iceberg's z-order needs the name {ZORDER_COLUMN}, which is a column of the table"
    if why:
        raise SettingsError(
            f"The table cannot be z-ordered by {shown(column)}: {why}.",
            "Choose other columns, or `compaction: sort` with `sort_by`.",
        )
