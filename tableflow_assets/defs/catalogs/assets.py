"""The catalogs that tables are published to: one asset per catalog, one check per table and catalog.

A run of a table also publishes it. If the catalog was unreachable then, the sensor catches up once it
is back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.connected import connected_publisher
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.resources import IO_MANAGER, IcebergCatalogResource
from tableflow_assets.publish.status import CatalogStatus, state_of_all
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

GROUP = "catalogs"
KINDS = {"glue": "glue", "unity": "databricks", "snowflake": "snowflake", "rest": "iceberg"}


def catalog_key(name: str) -> dg.AssetKey:
    return dg.AssetKey([GROUP, name])


def check_name(catalog: str) -> str:
    return f"published_to_{catalog}"


def tables_in(catalog: str, tables: Sequence[ManagedTable]) -> list[ManagedTable]:
    return [table for table in tables if table.is_shown_in(catalog)]


def catalog_asset(
    name: str, tables: Sequence[ManagedTable], settings: Settings
) -> dg.AssetsDefinition:
    """Materialized: every table of this catalog is published there as it is now."""
    catalog_tables = tables_in(name, tables)

    @dg.asset(
        key=catalog_key(name),
        deps=[table_key(table, settings.namespace) for table in catalog_tables],
        group_name=GROUP,
        kinds={KINDS[settings.catalogs[name].type]},
        description=f"What the catalog `{name}` shows of the tables. A run publishes all of them.",
        pool=f"tableflow_catalog_{name}",
        io_manager_key=IO_MANAGER,
    )
    def publish(
        context: dg.AssetExecutionContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.MaterializeResult[None]:
        publisher = connected_publisher(settings, tableflow_catalog)
        statuses: list[CatalogStatus] = []
        for table in catalog_tables:
            # Once a catalog has timed out, the remaining tables do not wait for it again.
            patient = state_of_all(statuses) != "failed"
            table_statuses = publisher.publish(table, patient=patient, only=name)
            tell(context, table, settings, table_statuses)
            statuses += table_statuses
        return dg.MaterializeResult(
            metadata={"state": state_of_all(statuses), "tables": _table(statuses)}
        )

    return publish


def catalog_checks(
    tables: Sequence[ManagedTable], settings: Settings
) -> Iterator[dg.AssetChecksDefinition]:
    for name in settings.catalogs:
        for table in tables_in(name, tables):
            yield _check(name, table, settings)


def _check(name: str, table: ManagedTable, settings: Settings) -> dg.AssetChecksDefinition:
    key = table_key(table, settings.namespace)

    @dg.asset_check(
        name=check_name(name),
        asset=key,
        description=f"Compares what the catalog `{name}` says with the table. Changes nothing.",
    )
    def published(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        (status,) = connected_publisher(settings, tableflow_catalog).look(table, only=name)
        return check_result(evaluation(key, status))

    return published


def tell(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    table: ManagedTable,
    settings: Settings,
    standings: Sequence[CatalogStatus],
) -> None:
    """Report what the checks would say, right after publishing."""
    for status in standings:
        if status.state == "failed":
            context.log.warning(f"{status.catalog}: {status.reason} {status.next_step}")
        event: Any = evaluation(table_key(table, settings.namespace), status)
        context.log_event(event)


def evaluation(key: dg.AssetKey, standing: CatalogStatus) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        key,
        check_name(standing.catalog),
        passed=standing.is_in_step or not standing.can_be_shown,
        severity=dg.AssetCheckSeverity.WARN,  # the table itself is fine
        description=_says(standing),
        metadata={
            "state": standing.state,
            "listed_as": standing.listed_as or "nothing",
            "snapshot_id": str(standing.snapshot),
            "behind": standing.behind,
            **(
                {"next_step": dg.MetadataValue.md(f"`{standing.next_step}`")}
                if standing.next_step
                else {}
            ),
        },
    )


def _says(status: CatalogStatus) -> str:
    if status.reason:
        return status.reason
    if status.behind:
        return f"{status.listed_as} is {status.behind} snapshots behind the table."
    return f"{status.listed_as} is the table as it is."


def _table(statuses: Sequence[CatalogStatus]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "topic": status.topic,
                    "state": status.state,
                    "listed_as": status.listed_as,
                    "snapshot": str(status.snapshot or ""),
                    "reason": status.reason,
                }
            )
            for status in statuses
        ]
    )
