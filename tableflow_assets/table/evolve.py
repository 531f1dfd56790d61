"""Brings a table's columns in step with the registry: adds and widens, never loses."""

from __future__ import annotations

import pydantic
from pyiceberg.exceptions import CommitFailedException, ValidationError
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import CommitConflict, IncompatibleSchema


def evolve(catalog: RestCatalog, table: Table, wanted: Schema) -> Table:
    """Add new columns (NULL in old rows) and widen types; a column no longer wanted stays."""
    before = table.schema()
    _refuse_another_case(table, wanted)

    def commit() -> None:
        with table.transaction() as transaction, transaction.update_schema() as update:
            update.union_by_name(wanted)

    try:
        catalog.ask(commit)
    except CommitFailedException as error:
        raise CommitConflict(
            f"Another writer changed the columns of {'.'.join(table.name())} at the same time.",
            "Run again: it sees the new columns.",
        ) from error
    except pydantic.ValidationError:
        raise  # an answer of the catalog that makes no sense says nothing about the schema
    except (ValidationError, ValueError) as error:
        raise IncompatibleSchema(
            f"The newest schema does not fit the table {'.'.join(table.name())}: {error}",
            "Register a version that only adds optional fields or widens types.",
        ) from error
    return table if before == table.schema() else catalog.ask(table.refresh)


def _refuse_another_case(table: Table, wanted: Schema) -> None:
    """Two columns that differ only in case would make the table unreadable to Spark and others."""
    known = {name.lower(): name for name in table.schema().column_names}
    for name in wanted.column_names:
        if known.get(name.lower(), name) != name:
            raise IncompatibleSchema(
                f"The newest schema has the field {name!r}; the table {'.'.join(table.name())} has"
                f" {known[name.lower()]!r}.",
                "Register a version that keeps the name as it was.",
            )
