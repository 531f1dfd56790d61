"""`tableflow query`: SQL over the tables, as they are or as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.errors import TableflowError
from tableflow_assets.moments import FORMS, moment
from tableflow_assets.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.as_of import TableFormat
    from tableflow_assets.catalog.rest import RestCatalog

Answer = tuple[list[str], list[tuple[Any, ...]]]  # columns and rows


@click.command()
@click.argument("sql")
@click.option("--at", "when", metavar="WHEN", help=f"All tables as they were then: {FORMS}.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["iceberg", "delta"]),
    default="iceberg",
    show_default=True,
    help="Through which of a table's formats it is read.",
)
@json_option
def query(sql: str, when: str | None, table_format: str, as_json: bool) -> None:
    """Run SQL over the tables with DuckDB, e.g. "SELECT count(*) FROM payments"."""
    import duckdb

    from tableflow_assets.tableflow import Tableflow

    catalog = Tableflow(load_settings()).catalog
    try:
        columns, rows = _answer(catalog, sql, when, cast("TableFormat", table_format))
    except duckdb.Error as error:
        raise TableflowError(
            f"DuckDB: {error}", 'List the tables with: tableflow query "SHOW TABLES"'
        ) from error
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(f"{len(rows)} rows", columns, rows)


def _answer(catalog: RestCatalog, sql: str, when: str | None, table_format: TableFormat) -> Answer:
    import duckdb

    from tableflow_assets.as_of import Views, views_of
    from tableflow_assets.catalog.duckdb import connect_duckdb

    if when is None and table_format == "iceberg":
        views, sources = Views(), None
    else:
        views = views_of(catalog, sql, moment(when) if when else None, table_format)
        sources = views.sources
    connection = connect_duckdb(catalog.connection, catalog.storage, sources)
    try:
        answer = connection.execute(sql)
        return [column[0] for column in answer.description or ()], answer.fetchall()
    except duckdb.CatalogException as error:
        for name, why in views.missing.items():
            if f"Table with name {name} does not exist" in str(error):
                raise why from error
        raise
    finally:
        connection.close()
