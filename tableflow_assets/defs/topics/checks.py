"""The asset checks of every table: does it match the log exactly once, and is its topic running?"""

import dagster as dg

from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.connected import ServersOfResources
from tableflow_assets.defs.names import CHECK_NAME, SUSPENSION_CHECK_NAME, table_key
from tableflow_assets.defs.resources import IcebergCatalogResource, KafkaResource, RegistryResource
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.table.suspension import Suspension, find_suspension
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify


class ExactlyOnceConfig(dg.Config):
    """Runs compare what they have just committed; the `verify` job compares everything."""

    whole_log: bool = False


def exactly_once_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=CHECK_NAME,
        asset=table_key(topic, settings.namespace),
        description="Compares table and log offset by offset: nothing missing, nothing twice.",
    )
    def exactly_once(
        config: ExactlyOnceConfig,
        tableflow_kafka: KafkaResource,
        tableflow_registry: RegistryResource,
        tableflow_catalog: IcebergCatalogResource,
    ) -> dg.AssetCheckResult:
        servers = ServersOfResources(tableflow_catalog, tableflow_kafka, tableflow_registry)
        tableflow = Tableflow(settings, servers)
        return check_result(exactly_once_evaluation(topic, tableflow, config.whole_log))

    return exactly_once


def exactly_once_evaluation(
    topic: Topic, tableflow: Tableflow, whole_log: bool
) -> dg.AssetCheckEvaluation:
    """The outcome of the check; a run that stays reports it too, of the newest commit now and then."""
    results = verify(
        tableflow.log,
        tableflow.catalog,
        topic,
        registry=tableflow.registry,
        newest_commit_only=not whole_log,
    )
    partitions = [dg.TableRecord(_shown(result.to_json())) for result in results]
    return dg.AssetCheckEvaluation(
        table_key(topic, tableflow.settings.namespace),
        CHECK_NAME,
        passed=all(result.ok for result in results),
        metadata={
            "compared": "the whole log" if whole_log else "the newest commit",
            "records": sum(result.records for result in results),
            "missing": sum(result.missing for result in results),
            "duplicated": sum(result.duplicated for result in results),
            "partitions": dg.MetadataValue.table(partitions) if results else "no table yet",
        },
    )


def not_suspended_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    key = table_key(topic, settings.namespace)

    @dg.asset_check(
        name=SUSPENSION_CHECK_NAME,
        asset=key,
        description="Fails while the topic is suspended, with why and the command that resolves it.",
    )
    def not_suspended(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        suspension = find_suspension(tableflow_catalog.client(), topic, settings.state_dir)
        return check_result(suspension_evaluation(key, suspension))

    return not_suspended


def suspension_evaluation(
    table: dg.AssetKey, suspension: Suspension | None
) -> dg.AssetCheckEvaluation:
    """The outcome of the check; the sensor reports it too, as soon as it sees a change."""
    if suspension is None:
        return dg.AssetCheckEvaluation(table, SUSPENSION_CHECK_NAME, passed=True)
    return dg.AssetCheckEvaluation(
        table,
        SUSPENSION_CHECK_NAME,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{suspension.reason} Resolve it with: {suspension.resolve}",
        metadata={
            "reason": suspension.reason,
            "since": suspension.since,
            "resolve": dg.MetadataValue.md(f"`{suspension.resolve}`"),
        },
    )


def _shown(result: dict[str, object]) -> dict[str, str | int | float | bool]:
    """The same fields in every row, as Dagster's tables demand."""
    return {k: v if isinstance(v, str | int | float | bool) else "" for k, v in result.items()}
