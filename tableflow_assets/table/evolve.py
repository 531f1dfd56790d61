"""Brings a table's columns in step with the registry: adds and widens, never loses."""

from __future__ import annotations

from pyiceberg.exceptions import ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import IncompatibleSchema


def evolve(catalog: RestCatalog, table: Table, wanted: Schema) -> Table:
    """Add new columns (NULL in old rows) and widen types; a column no longer wanted stays."""
    before = table.schema()
    try:
        with table.transaction() as transaction, transaction.update_schema() as update:
            update.union_by_name(wanted)
    except (ValidationError, ValueError) as error:
        raise IncompatibleSchema(
            f"The newest schema does not fit the table {'.'.join(table.name())}: {error}",
            "Register a version that only adds optional fields or widens types.",
        ) from error
    return table if before == table.schema() else catalog.ask(table.refresh)
