"""Brings a table's columns in step with the registry: adds and widens, never loses.

The new schema is put together here and not by pyiceberg's ``union_by_name``: that takes a decimal of
another scale, and bytes for text, as if nothing had changed, and finds nested fields by dotted names
that can mean two of them.
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

LAST_ADDED = -1  # what the REST protocol calls the schema that was added in the same commit


def evolve(catalog: RestCatalog, table: Table, wanted: Schema) -> Table:
    """Add new columns (NULL in old rows), widen types, renew comments; no column ever goes."""
    changes = diff(table.schema(), wanted, newest=wanted, taken=partition_names(table))
    refuse(changes, ".".join(table.name()))
    evolved = evolved_schema(table, wanted)
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
    """Every change that is refused, at once: whoever mends the schema mends it once."""
    if changes.fits:
        return
    lines = "".join(f"\n  {change}" for change in changes.refused)
    raise IncompatibleSchema(
        f"The newest schema does not fit the table {table}:{lines}",
        "Register a version that only adds optional fields or widens types.",
    )


def evolved_schema(table: Table, wanted: Schema) -> Schema:
    """The table's columns in their order, with what is wanted of them, then the new ones."""
    ids = count(table.metadata.last_column_id + 1)
    now = table.schema()
    return Schema(
        *_struct(now.as_struct(), wanted.as_struct(), ids).fields,
        schema_id=1 + max(one.schema_id for one in table.metadata.schemas),
        identifier_field_ids=now.identifier_field_ids,
    )


def _commit(table: Table, schema: Schema) -> None:
    metadata = table.metadata
    # A comment may go back to what it was: then the schema is there already, and has its id.
    known = next((one.schema_id for one in metadata.schemas if one == schema), None)
    updates: tuple[TableUpdate, ...]
    if known is None:
        updates = (AddSchemaUpdate(schema=schema), _set_current(LAST_ADDED))
    else:
        updates = (_set_current(known),)
    unchanged = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    table.catalog.commit_table(table, unchanged, updates)


def _set_current(schema_id: int) -> SetCurrentSchemaUpdate:
    return SetCurrentSchemaUpdate.model_validate({"schema-id": schema_id})


def _struct(have: StructType, want: StructType, ids: Iterator[int]) -> StructType:
    wanted = {field.name: field for field in want.fields}
    fields = []
    for field in have.fields:
        new = wanted.pop(field.name, None)
        fields.append(_field(field, new, ids) if new else field)
    return StructType(*fields, *(_fresh(field, ids) for field in wanted.values()))


def _field(have: NestedField, want: NestedField, ids: Iterator[int]) -> NestedField:
    kind = _kind(have.field_type, want.field_type, ids)
    return have.model_copy(update={"field_type": kind, "doc": want.doc or have.doc})


def _fresh(field: NestedField, ids: Iterator[int]) -> NestedField:
    return assign_fresh_schema_ids(Schema(field), lambda: next(ids)).fields[0]


def _kind(have: IcebergType, want: IcebergType, ids: Iterator[int]) -> IcebergType:
    if isinstance(have, StructType) and isinstance(want, StructType):
        return _struct(have, want, ids)
    if isinstance(have, ListType) and isinstance(want, ListType):
        element = _kind(have.element_type, want.element_type, ids)
        return ListType(have.element_id, element, element_required=have.element_required)
    if isinstance(have, MapType) and isinstance(want, MapType):
        value = _kind(have.value_type, want.value_type, ids)
        return MapType(
            have.key_id, have.key_type, have.value_id, value, value_required=have.value_required
        )
    return want if is_wider(want, than=have) else have
