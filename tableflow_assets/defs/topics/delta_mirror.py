"""The asset check of every table that is kept as Delta, too: does the Delta log say what Iceberg says?"""

import dagster as dg

from tableflow_assets.base.errors import (
    CommitConflict,
    MirrorError,
    ServerUnreachable,
    TableflowError,
)
from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.metadata import delta_metadata
from tableflow_assets.defs.names import MIRROR_CHECK_NAME, table_key
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings
from tableflow_assets.table.delta.lifecycle import MirrorStatus, mirror_status
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.formats import keep_formats
from tableflow_assets.table.suspension import suspension_of


def delta_mirror_check(topic: ManagedTable, settings: Settings) -> dg.AssetChecksDefinition:
    key = table_key(topic, settings.namespace)

    @dg.asset_check(
        name=MIRROR_CHECK_NAME,
        asset=key,
        description=(
            "Brings the Delta log up to the newest Iceberg snapshot. Fails where it cannot: somebody"
            " else has written to it, or it is damaged."
        ),
    )
    def delta_mirror(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        return check_result(mirror_evaluation(key, topic, tableflow_catalog.client()))

    return delta_mirror


def mirror_evaluation(
    key: dg.AssetKey, topic: ManagedTable, catalog: RestCatalog
) -> dg.AssetCheckEvaluation:
    """What the check says; a run of the table says it too, after its commits."""
    try:
        table = catalog.find(topic.table)
        if table is None:
            return _evaluation(key, passed=True, why="There is no table yet.")
        if suspension_of(table, topic) is None:  # else all of it stays as it is
            table = keep_formats(catalog, table, topic)
            catch_up(catalog, table)
        found = mirror_status(catalog, table)
    except (ServerUnreachable, CommitConflict) as error:
        return _evaluation(key, passed=False, why=f"It could not be found out. {error}")
    except TableflowError as error:
        return _refused(key, topic, error)
    return dg.AssetCheckEvaluation(
        key,
        MIRROR_CHECK_NAME,
        passed=not found.behind,
        severity=dg.AssetCheckSeverity.WARN,
        description=_says(found),
        metadata={
            **delta_metadata(table, found.version),
            "snapshot_id": str(found.snapshot),
        },
    )


def _says(found: MirrorStatus) -> str:
    if found.problem:
        return found.problem
    if found.behind:
        return f"Delta version {found.version} is {found.behind} states behind the Iceberg table."
    return f"Delta version {found.version} is the newest Iceberg snapshot."


def _evaluation(key: dg.AssetKey, *, passed: bool, why: str) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        key,
        MIRROR_CHECK_NAME,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=why,
    )


def _refused(
    key: dg.AssetKey, topic: ManagedTable, error: TableflowError
) -> dg.AssetCheckEvaluation:
    resolve = f"tableflow repair {topic.name}"
    can_repair = isinstance(error, MirrorError)
    return dg.AssetCheckEvaluation(
        key,
        MIRROR_CHECK_NAME,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=str(error),
        metadata={
            "reason": error.problem,
            **({"resolve": dg.MetadataValue.md(f"`{resolve}`")} if can_repair else {}),
        },
    )
