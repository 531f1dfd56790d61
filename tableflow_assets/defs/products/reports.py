"""The labs' analytics as assets: saved queries over the products, each with its chart on its page."""

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg

from tableflow_assets.defs import every_hour
from tableflow_assets.defs.metadata import records_table
from tableflow_assets.defs.names import product_key
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.resources import IO_MANAGER, IcebergCatalogResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.products import Product
from tableflow_assets.query.answer import Table, draw
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.query.saved import SavedQuery, saved_queries
from tableflow_assets.settings.settings import Settings

GROUP = JOB_NAME = "reports"
SCHEDULE_NAME = "reports_schedule"  # as Dagster would call it
ROWS_SHOWN = 20


def reports(products: Sequence[Product], settings: Settings) -> list[dg.AssetsDefinition]:
    """One per saved query whose tables are all products in the settings, as they are by default."""
    products_by_name = {product.name: product for product in products}
    return [
        _report(query, [products_by_name[table] for table in query.tables], settings)
        for query in saved_queries().values()
        if query.about.chart
        and not query.about.needs
        and set(query.tables) <= products_by_name.keys()
    ]


def reports_job(drawn: Sequence[dg.AssetsDefinition]) -> Any:
    return dg.define_asset_job(
        JOB_NAME,
        selection=dg.AssetSelection.assets(*drawn),
        description="Asks the saved queries, and draws what they answer.",
        executor_def=dg.in_process_executor,
    )


def reports_schedule() -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        job_name=JOB_NAME,
        name=SCHEDULE_NAME,
        cron_schedule=every_hour.REPORTS,
        execution_timezone="UTC",
        tags={RUN_TAG: SCHEDULE_NAME},
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )


def _report(query: SavedQuery, reads: Iterable[Product], settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(
        key=[GROUP, query.name],
        deps=[product_key(product, settings.namespace) for product in reads],
        group_name=GROUP,
        kinds={"duckdb"},
        io_manager_key=IO_MANAGER,
        description=f"{query.about.description}\n\n`tableflow query {query.name}`",
        metadata={"sql": dg.MetadataValue.md(f"```sql\n{query.sql}\n```")},
    )
    def report(tableflow_catalog: IcebergCatalogResource) -> dg.MaterializeResult[None]:
        answer = _answer(tableflow_catalog.client(), query)
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows[:ROWS_SHOWN]]
        return dg.MaterializeResult(
            metadata={
                "chart": dg.MetadataValue.md(_picture(query, answer)),
                "answer": records_table(rows) if rows else "no rows",
                "dagster/row_count": len(answer.rows),
            }
        )

    return report


def _answer(catalog: RestCatalog, query: SavedQuery) -> Table:
    connection = connect_duckdb(catalog.connection, catalog.storage)
    try:
        answer = connection.execute(query.sql)
        return Table([column[0] for column in answer.description or ()], answer.fetchall())
    finally:
        connection.close()


def _picture(query: SavedQuery, answer: Table) -> str:
    if query.about.chart is None:
        raise AssertionError(f"{query.name} has no chart")
    svg = draw(query.about.chart, answer, query.about.description)
    return f"![{query.name}](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
