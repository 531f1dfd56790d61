"""The asset checks of a product: those in its header, and whether it is what its SQL makes of its inputs."""

from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource
from pydantic import Field

from tableflow_assets.base.errors import InputMissing
from tableflow_assets.defs import every_hour
from tableflow_assets.defs.connected import connected_runner
from tableflow_assets.defs.names import RECOMPUTED_CHECK_NAME, product_key
from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.products.follows_inputs import follows_inputs_check
from tableflow_assets.defs.products.metadata import finding_metadata, recheck_metadata
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.product.products import Product
from tableflow_assets.product.quality import Finding, run_checks
from tableflow_assets.product.recheck import recheck
from tableflow_assets.product.runner import Runner
from tableflow_assets.settings.settings import Settings

JOB_NAME = "check_products"
SCHEDULE_NAME = "check_products_every_hour"
SAMPLE = 200
NO_ROWS = "There are no rows yet."


def product_checks(product: Product, settings: Settings) -> list[dg.AssetChecksDefinition]:
    checks = [_recomputed_check(product, settings), follows_inputs_check(product, settings)]
    if product.definition.header.checks:
        checks.append(_quality_checks(product, settings))
    return checks


def _quality_checks(product: Product, settings: Settings) -> dg.AssetChecksDefinition:
    key = product_key(product, settings.namespace)
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=_description(query))
        for name, query in product.definition.header.checks.items()
    ]

    @dg.multi_asset_check(name=f"{key.to_python_identifier()}_quality", specs=specs)
    def quality(
        tableflow_catalog: IcebergCatalogResource, tableflow_pyspark: LazyPySparkResource
    ) -> Iterator[dg.AssetCheckResult]:
        runner = connected_runner(product, settings, tableflow_catalog, tableflow_pyspark)
        for evaluation in quality_evaluations(key, runner):
            yield dg.AssetCheckResult(
                check_name=evaluation.check_name,
                passed=evaluation.passed,
                severity=evaluation.severity,
                description=evaluation.description,
                metadata=evaluation.metadata,
            )

    return quality


def quality_evaluations(key: dg.AssetKey, runner: Runner) -> list[dg.AssetCheckEvaluation]:
    """The outcome of the header's checks; a run of the product reports it too, after its commit."""
    names = list(runner.product.definition.header.checks)
    if not names:
        return []
    try:
        findings = {finding.name: finding for finding in run_checks(runner)}
    except Exception as error:  # the rows are committed, whatever happens here
        return [
            dg.AssetCheckEvaluation(
                key,
                name,
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"It could not be found out. {error}",
            )
            for name in names
        ]
    return [_evaluation(key, name, findings.get(name)) for name in names]


def known_evaluations(
    instance: dg.DagsterInstance, key: dg.AssetKey, runner: Runner
) -> list[dg.AssetCheckEvaluation]:
    """The last outcome of every check, if all of them saw the current rows; otherwise none.

    Repeated with a materialization that changed nothing: Dagster discards results older than that.
    """
    _, ledger = runner.table()
    evaluations = []
    for name in runner.product.definition.header.checks:
        record = instance.get_latest_asset_check_evaluation_record(dg.AssetCheckKey(key, name))
        evaluation = record.event and record.event.asset_check_evaluation if record else None
        snapshot = evaluation.metadata.get("snapshot_id") if evaluation else None
        if not evaluation or not snapshot or not ledger or snapshot.value != str(ledger.head):
            return []
        evaluations.append(
            dg.AssetCheckEvaluation(
                key,
                name,
                passed=evaluation.passed,
                severity=evaluation.severity,
                description=evaluation.description,
                metadata=evaluation.metadata,
            )
        )
    return evaluations


def _evaluation(key: dg.AssetKey, name: str, finding: Finding | None) -> dg.AssetCheckEvaluation:
    if finding is None:
        return dg.AssetCheckEvaluation(key, name, passed=True, description=NO_ROWS)
    return dg.AssetCheckEvaluation(
        key,
        name,
        passed=finding.passed,
        severity=dg.AssetCheckSeverity.ERROR,
        description=None if finding.passed else f"{finding.offending} rows should not be there.",
        metadata=finding_metadata(finding),
    )


def _description(query: str) -> str:
    return f"No row should come of this:\n\n```sql\n{query.strip()}\n```"


class RecheckConfig(dg.Config):
    """How much of a product is computed again."""

    sample: int = Field(
        default=SAMPLE, ge=0, description="So many values of its scope, chosen at random. 0: all."
    )


def _recomputed_check(product: Product, settings: Settings) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        name=RECOMPUTED_CHECK_NAME,
        asset=product_key(product, settings.namespace),
        description="Computes rows anew, from the inputs as they were, and compares them.",
    )
    def recomputed_equals(
        config: RecheckConfig,
        tableflow_catalog: IcebergCatalogResource,
        tableflow_pyspark: LazyPySparkResource,
    ) -> dg.AssetCheckResult:
        runner = connected_runner(product, settings, tableflow_catalog, tableflow_pyspark)
        if runner.table()[1] is None:
            return dg.AssetCheckResult(passed=True, description=NO_ROWS)
        try:
            comparison = recheck(runner, config.sample or None)
        except InputMissing as error:  # expired since; the next run fixes that
            return dg.AssetCheckResult(
                passed=False,
                severity=dg.AssetCheckSeverity.WARN,
                description=f"It could not be found out. {error}",
            )
        return dg.AssetCheckResult(passed=comparison.passed, metadata=recheck_metadata(comparison))

    return recomputed_equals


def check_products_job(checks: Sequence[dg.AssetCheckKey]) -> Any:
    return dg.define_asset_job(
        JOB_NAME,
        selection=dg.AssetSelection.checks(*checks),
        description="All checks of all products; a sample of their rows is computed anew.",
        executor_def=dg.in_process_executor,
    )


def check_products_schedule() -> dg.ScheduleDefinition:
    return dg.ScheduleDefinition(
        job_name=JOB_NAME,
        name=SCHEDULE_NAME,
        cron_schedule=every_hour.CHECK_PRODUCTS,
        tags={RUN_TAG: SCHEDULE_NAME},
        default_status=dg.DefaultScheduleStatus.RUNNING,
    )
