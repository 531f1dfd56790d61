"""The asset check of every table: does it need maintenance, and why?"""

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.metadata import health_metadata
from tableflow_assets.defs.names import MAINTENANCE_CHECK_NAME, table_key
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.operate.maintenance.health import Health, health
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

LONGEST_REASON = 300  # characters; the table of needs has the full text


def maintenance_check(topic: ManagedTable, settings: Settings) -> dg.AssetChecksDefinition:
    key = table_key(topic, settings.namespace)

    @dg.asset_check(
        name=MAINTENANCE_CHECK_NAME,
        asset=key,
        description="Warns while the table has more files, snapshots or dead rows than do it good.",
    )
    def maintenance(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        try:
            table_health = health(tableflow_catalog.client(), topic)
        except (
            TableflowError,
            OSError,
        ) as error:  # a server is down; the object store raises OSError
            return dg.AssetCheckResult(
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"It could not be found out. {error}",
            )
        return check_result(maintenance_evaluation(key, table_health))

    return maintenance


def maintenance_evaluation(key: dg.AssetKey, found: Health) -> dg.AssetCheckEvaluation:
    """The outcome of the check; a run of `maintain` reports it too, after every step."""
    return dg.AssetCheckEvaluation(
        key,
        MAINTENANCE_CHECK_NAME,
        passed=not found.needs,
        severity=dg.AssetCheckSeverity.WARN,
        description=what_is_needed(found),
        metadata=health_metadata(found),
    )


def what_is_needed(found: Health) -> str:
    if not found.needs:
        files = sum(window.files for window in found.windows)
        return f"Nothing is needed: {files} files, {found.snapshots} snapshots."
    reasons = "; ".join(f"{need.kind}: {need.why}" for need in found.needs)
    return reasons if len(reasons) <= LONGEST_REASON else f"{reasons[: LONGEST_REASON - 2]} …"
