"""The asset check of every table that is also kept as Delta: does the Delta log match Iceberg?"""

from typing import Any

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

NO_DELTA_VERSION = -1  # there is no Delta log, or its version could not be read


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
    """The outcome of the check; a run of the table reports it too, after its commits."""
    try:
        table = catalog.find(topic.table)
        if table is None:
            return _evaluation(key, passed=True, description="There is no table yet.")
        if suspension_of(table, topic) is None:  # a suspended table stays untouched
            table = keep_formats(catalog, table, topic)
            catch_up(catalog, table)
        status = mirror_status(catalog, table)
    except (ServerUnreachable, CommitConflict) as error:
        return _evaluation(key, passed=False, description=f"It could not be found out. {error}")
    except TableflowError as error:
        return _refused(key, topic, error)
    return dg.AssetCheckEvaluation(
        key,
        MIRROR_CHECK_NAME,
        passed=not status.behind,
        severity=dg.AssetCheckSeverity.WARN,
        description=_says(status),
        metadata={
            **delta_metadata(table, status.version),
            "snapshot_id": str(status.snapshot),
        },
    )


def version_in(evaluation: dg.AssetCheckEvaluation) -> int:
    version: Any = (evaluation.metadata or {}).get("delta_version")
    return int(version.value) if version else NO_DELTA_VERSION


def _says(status: MirrorStatus) -> str:
    if status.problem:
        return status.problem
    if status.behind:
        return f"Delta version {status.version} is {status.behind} states behind the Iceberg table."
    return f"Delta version {status.version} is the newest Iceberg snapshot."


def _evaluation(key: dg.AssetKey, *, passed: bool, description: str) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        key,
        MIRROR_CHECK_NAME,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=description,
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
