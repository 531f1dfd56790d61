"""`tableflow query`: SQL over the tables, as they are or as they were; saved queries and their charts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands.show import console, counted, json_option, print_json, print_table
from tableflow_assets.operate.moments import FORMS, moment
from tableflow_assets.settings.settings import Settings, load_settings

if TYPE_CHECKING:
    from tableflow_assets.lake.catalog import RestCatalog
    from tableflow_assets.query.answer import Chart
    from tableflow_assets.query.as_of import TableFormat
    from tableflow_assets.query.saved import SavedQuery

Answer = tuple[list[str], list[tuple[Any, ...]]]  # columns and rows
LIST = 'List the tables with: tableflow query "SHOW TABLES"'
LIST_SAVED = "List the saved queries with: tableflow query --list"


@click.command()
@click.argument("sql", required=False)
@click.option("--list", "list_saved", is_flag=True, help="List the saved queries.")
@click.option("--at", "when", metavar="WHEN", help=f"All tables as they were then: {FORMS}.")
@click.option(
    "--format",
    "table_format",
    type=click.Choice(["iceberg", "delta"]),
    default="iceberg",
    show_default=True,
    help="Through which of a table's formats it is read.",
)
@click.option(
    "--chart",
    "chart_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    metavar="FILE.svg",
    help="Draw the answer, too.",
)
@json_option
def query(
    sql: str | None,
    list_saved: bool,
    when: str | None,
    table_format: str,
    chart_file: Path | None,
    as_json: bool,
) -> None:
    """Run SQL over the tables with DuckDB, e.g. "SELECT count(*) FROM payments".

    A single word may be the name of a saved query, e.g. hourly_sales; --list shows them.
    """
    from tableflow_assets.query.saved import saved_query

    if list_saved:
        _list_saved(as_json)
        return
    if sql is None:
        raise click.UsageError('Give some SQL, or the name of a saved query (see "--list").')
    saved = saved_query(sql)
    columns, rows = _ask(sql, saved, when, cast("TableFormat", table_format))
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(counted(len(rows), "row"), columns, rows)
    chart = saved.about.chart if saved else None
    if chart_file is not None:
        _draw(chart_file, chart, saved.about.description if saved else sql, (columns, rows))
    elif chart is not None and rows and console.is_terminal and not as_json:
        _print_chart(chart, (columns, rows))


def _list_saved(as_json: bool) -> None:
    from tableflow_assets.query.saved import saved_queries

    queries = saved_queries().values()
    if as_json:
        print_json([query.to_json() for query in queries])
        return
    rows = [[query.name, ", ".join(query.tables), query.about.description] for query in queries]
    print_table("Saved queries", ["query", "reads", "what it tells"], rows)


def _ask(sql: str, saved: SavedQuery | None, when: str | None, table_format: TableFormat) -> Answer:
    import duckdb

    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    if saved is not None:
        _refuse_without_tables(tableflow.settings, tableflow.catalog, saved)
    try:
        return _answer(tableflow.catalog, saved.sql if saved else sql, when, table_format)
    except duckdb.BinderException as error:
        next_step = saved.about.needs.strip() if saved else ""
        raise TableflowError(f"DuckDB: {error}", next_step or LIST) from error
    except duckdb.Error as error:
        is_word = saved is None and sql.isidentifier()
        raise TableflowError(f"DuckDB: {error}", LIST_SAVED if is_word else LIST) from error


def _refuse_without_tables(settings: Settings, catalog: RestCatalog, saved: SavedQuery) -> None:
    for table in saved.tables:
        if catalog.find(table) is None:
            is_product = table in settings.products
            raise TableflowError(
                f"The saved query {saved.name!r} reads the product {table!r}, which has no table yet.",
                f"Make it: tableflow products run {table}"
                if is_product
                else f"Add {table} under `products` in tableflow.yaml, then make it with"
                f" `tableflow products run {table}`.",
            )


def _draw(file: Path, chart: Chart | None, title: str, answer: Answer) -> None:
    from tableflow_assets.query.answer import Table, draw, guess

    table = Table(*answer)
    svg = draw(chart or guess(table), table, title)
    try:
        file.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise TableflowError(
            f"The chart cannot be written: {error}", "Name a file in a folder that is there."
        ) from error
    click.echo(f"Drawn: {file}", err=True)


def _print_chart(chart: Chart, answer: Answer) -> None:
    from tableflow_assets.query.answer import Table, in_text

    for line in in_text(chart, Table(*answer), console.width):
        console.print(line, markup=False, highlight=False, no_wrap=True)


def _answer(catalog: RestCatalog, sql: str, when: str | None, table_format: TableFormat) -> Answer:
    import duckdb

    from tableflow_assets.query.as_of import Views, views_of
    from tableflow_assets.query.duckdb import connect_duckdb

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
        for name, reason in views.missing.items():
            if f"Table with name {name} does not exist" in str(error):
                raise reason from error
        raise
    finally:
        connection.close()
