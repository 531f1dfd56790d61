"""The catalogs that tables are published to: an asset each, and a check of every table in every one of them.

A run of a table publishes it, too. What it could not, because the catalog was away, the sensor brings up
to date when it is back.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg

from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.resources import IO_MANAGER, IcebergCatalogResource
from tableflow_assets.publish.publisher import Publisher
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
    shown = tables_in(name, tables)

    @dg.asset(
        key=catalog_key(name),
        deps=[table_key(table, settings.namespace) for table in shown],
        group_name=GROUP,
        kinds={KINDS[settings.catalogs[name].type]},
        description=f"What the catalog `{name}` shows of the tables. A run publishes all of them.",
        pool=f"tableflow_catalog_{name}",
        io_manager_key=IO_MANAGER,
    )
    def publish(
        context: dg.AssetExecutionContext, tableflow_catalog: IcebergCatalogResource
    ) -> dg.MaterializeResult[None]:
        publisher = Publisher(settings, tableflow_catalog.client())
        found: list[CatalogStatus] = []
        for table in shown:
            # A catalog that was waited for in vain is not waited for again with every other table.
            patient = state_of_all(found) != "failed"
            standings = publisher.publish(table, patient=patient, only=name)
            tell(context, table, settings, standings)
            found += standings
        return dg.MaterializeResult(
            metadata={"state": state_of_all(found), "tables": _table(found)}
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
        (standing,) = Publisher(settings, tableflow_catalog.client()).look(table, only=name)
        return check_result(evaluation(key, standing))

    return published


def tell(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    table: ManagedTable,
    settings: Settings,
    standings: Sequence[CatalogStatus],
) -> None:
    """What the checks would say, after something was published."""
    for standing in standings:
        if standing.state == "failed":
            context.log.warning(f"{standing.catalog}: {standing.reason} {standing.next_step}")
        said: Any = evaluation(table_key(table, settings.namespace), standing)
        context.log_event(said)


def evaluation(key: dg.AssetKey, standing: CatalogStatus) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        key,
        check_name(standing.catalog),
        passed=standing.is_in_step or not standing.can_be_shown,
        severity=dg.AssetCheckSeverity.WARN,  # the table itself is as it should be
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


def _says(standing: CatalogStatus) -> str:
    if standing.reason:
        return standing.reason
    if standing.behind:
        return f"{standing.listed_as} is {standing.behind} snapshots behind the table."
    return f"{standing.listed_as} is the table as it is."


def _table(found: Sequence[CatalogStatus]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {
                    "topic": one.topic,
                    "state": one.state,
                    "listed_as": one.listed_as,
                    "snapshot": str(one.snapshot or ""),
                    "reason": one.reason,
                }
            )
            for one in found
        ]
    )
