"""Brings a table's columns in line with the registry: adds and widens them, never drops one.

The new schema is built here and not by pyiceberg's ``union_by_name``: that one accepts a decimal of
another scale, or bytes in place of text, as if nothing had changed, and it looks up nested fields by
dotted names, which can be ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    TableUpdate,
)
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from tableflow_assets.base.errors import CommitConflict, IncompatibleSchema
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.schema_diff import SchemaDiff, diff, is_wider, partition_names

LAST_ADDED = -1  # in the REST protocol: the schema that was added in the same commit


def evolve(catalog: RestCatalog, table: Table, target: Schema) -> Table:
    """Add new columns (NULL in old rows), widen types, update comments; never drop a column."""
    changes = diff(table.schema(), target, newest=target, reserved=partition_names(table))
    refuse(changes, ".".join(table.name()))
    evolved = evolved_schema(table, target)
    if evolved == table.schema():
        return table
    try:
        catalog.ask(lambda: _commit(table, evolved))
    except CommitFailedException as error:
        raise CommitConflict(
            f"Another writer changed the columns of {'.'.join(table.name())} at the same time.",
            "Run again: it sees the new columns.",
        ) from error
    return catalog.ask(table.refresh)


def refuse(changes: SchemaDiff, table: str) -> None:
    """Raise one error with all refused changes, so that the schema can be fixed in one go."""
    if changes.fits:
        return
    lines = "".join(f"\n  {change}" for change in changes.refused)
    raise IncompatibleSchema(
        f"The newest schema does not fit the table {table}:{lines}",
        "Register a version that only adds optional fields or widens types.",
    )


def evolved_schema(table: Table, target: Schema) -> Schema:
    """The table's columns in their order, merged with the target's, then the new ones."""
    ids = count(table.metadata.last_column_id + 1)
    current = table.schema()
    return Schema(
        *_merged_struct(current.as_struct(), target.as_struct(), ids).fields,
        schema_id=1 + max(schema.schema_id for schema in table.metadata.schemas),
        identifier_field_ids=current.identifier_field_ids,
    )


def _commit(table: Table, schema: Schema) -> None:
    metadata = table.metadata
    # A comment may change back to what it was: that schema exists already, under its own id.
    existing_id = next((old.schema_id for old in metadata.schemas if old == schema), None)
    updates: tuple[TableUpdate, ...]
    if existing_id is None:
        updates = (AddSchemaUpdate(schema=schema), _set_current(LAST_ADDED))
    else:
        updates = (_set_current(existing_id),)
    unchanged = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    table.catalog.commit_table(table, unchanged, updates)


def _set_current(schema_id: int) -> SetCurrentSchemaUpdate:
    return SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id})


def _merged_struct(current: StructType, target: StructType, ids: Iterator[int]) -> StructType:
    remaining = {field.name: field for field in target.fields}
    fields = []
    for field in current.fields:
        target_field = remaining.pop(field.name, None)
        fields.append(_merged_field(field, target_field, ids) if target_field else field)
    return StructType(*fields, *(_new_field(field, ids) for field in remaining.values()))


def _merged_field(current: NestedField, target: NestedField, ids: Iterator[int]) -> NestedField:
    field_type = _merged_type(current.field_type, target.field_type, ids)
    return current.model_copy(update={"field_type": field_type, "doc": target.doc or current.doc})


def _new_field(field: NestedField, ids: Iterator[int]) -> NestedField:
    return assign_fresh_schema_ids(Schema(field), lambda: next(ids)).fields[0]


def _merged_type(current: IcebergType, target: IcebergType, ids: Iterator[int]) -> IcebergType:
    if isinstance(current, StructType) and isinstance(target, StructType):
        return _merged_struct(current, target, ids)
    if isinstance(current, ListType) and isinstance(target, ListType):
        element = _merged_type(current.element_type, target.element_type, ids)
        return ListType(current.element_id, element, element_required=current.element_required)
    if isinstance(current, MapType) and isinstance(target, MapType):
        value = _merged_type(current.value_type, target.value_type, ids)
        return MapType(
            current.key_id,
            current.key_type,
            current.value_id,
            value,
            value_required=current.value_required,
        )
    return target if is_wider(target, than=current) else current
