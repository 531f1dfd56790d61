"""The asset check of every table: does the newest schema version fit?"""

import dagster as dg

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.metadata import schema_diff_metadata
from tableflow_assets.defs.names import table_key
from tableflow_assets.defs.resources import IcebergCatalogResource, RegistryResource
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.schema_plan import plan_schema
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.registry import Registry

SCHEMA_CHECK_NAME = "schema_fits"


def schema_fits_check(topic: Topic, settings: Settings) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=SCHEMA_CHECK_NAME,
        asset=table_key(topic, settings.namespace),
        description="Compares the newest registered schema with the table's columns.",
    )
    def schema_fits(
        tableflow_registry: RegistryResource, tableflow_catalog: IcebergCatalogResource
    ) -> dg.AssetCheckResult:
        return check_result(
            schema_evaluation(
                topic, tableflow_registry.client(), tableflow_catalog.client(), settings
            )
        )

    return schema_fits


def schema_evaluation(
    topic: Topic, registry: Registry, catalog: RestCatalog, settings: Settings
) -> dg.AssetCheckEvaluation:
    """The outcome of the check; the sensor reports it too, because a run that the schema suspends
    never reaches its checks."""
    key = table_key(topic, settings.namespace)
    try:
        schema_plan = plan_schema(topic, registry, catalog, settings.state_dir)
    except TableflowError as error:  # a server is down, or something else is wrong with the topic
        return dg.AssetCheckEvaluation(
            key,
            SCHEMA_CHECK_NAME,
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"It could not be found out. {error}",
        )
    return dg.AssetCheckEvaluation(
        key,
        SCHEMA_CHECK_NAME,
        passed=schema_plan.diff.fits,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"{schema_plan.subject or topic.name}: {schema_plan.diff.summary()}",
        metadata=schema_diff_metadata(schema_plan),
    )
