"""A product as an asset: a run applies all changes of its inputs, whichever window was launched."""

from collections.abc import Iterator

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import InputMissing
from tableflow_assets.defs.catalogs.assets import tell
from tableflow_assets.defs.connected import connected_runner
from tableflow_assets.defs.metadata import Metadata
from tableflow_assets.defs.names import input_key, product_key, table_pool
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.products.checks import known_evaluations, quality_evaluations
from tableflow_assets.defs.products.metadata import (
    product_definition_metadata,
    product_description,
)
from tableflow_assets.defs.products.windows import changed_windows, delta_of
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.defs.topics.delta_mirror import mirror_evaluation
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Runner, RunResult
from tableflow_assets.settings.settings import Settings


def product_asset(
    product: Product, settings: Settings, windows: ProductWindows
) -> dg.AssetsDefinition:
    spec = _spec(product, settings, windows)

    @dg.multi_asset(
        specs=[spec],
        name=spec.key.to_python_identifier(),
        pool=table_pool(product.spec),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def update(
        context: dg.AssetExecutionContext,
        tableflow_catalog: IcebergCatalogResource,
        tableflow_pyspark: LazyPySparkResource,
    ) -> Iterator[dg.MaterializeResult[None]]:
        runner = connected_runner(product, settings, tableflow_catalog, tableflow_pyspark)
        try:
            result = runner.run(context.run.run_id)
        except InputMissing as error:  # the sensor launches it again once the input is there
            context.log.warning(str(error))
            return
        reached("before_event")
        _Report(context, runner, settings.namespace, windows).tell(result)
        tell(context, product.spec, settings, result.catalogs)
        yield dg.MaterializeResult()

    return update


def _spec(product: Product, settings: Settings, windows: ProductWindows) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=product_key(product, settings.namespace),
        deps=[input_key(source, settings.namespace) for source in product.inputs],
        description=product_description(product),
        group_name=product.options.group,
        owners=list(product.options.owners),
        kinds={*product.options.formats, "spark"},
        metadata=product_definition_metadata(product, settings.namespace),
        code_version=product.definition.version,
        partitions_def=windows.definition,
        skippable=True,  # while an input has no table
    )


class _Report:
    """What Dagster learns after a commit. A failure here does not undo the commit."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        runner: Runner,
        namespace: str,
        windows: ProductWindows,
    ) -> None:
        self._context, self._runner, self._windows = context, runner, windows
        self._product, self._namespace = runner.product, namespace
        self._key = product_key(runner.product, namespace)

    def tell(self, result: RunResult) -> None:
        delta = self._delta()
        launched = frozenset(self._context.partition_keys)
        windows = changed_windows(
            self._context, self._runner, self._namespace, self._windows, result, launched
        )
        for key, about in windows.items():
            metadata = about | delta
            if key in launched:
                self._context.add_asset_metadata(metadata, partition_key=key)
            else:  # windows that nobody launched but this run changed
                self._context.log_event(
                    dg.AssetMaterialization(self._key, metadata=metadata, partition=key)
                )
        self._context.log.info(str(result))
        for evaluation in self._evaluations(result):
            self._context.log_event(evaluation)

    def _evaluations(self, result: RunResult) -> list[dg.AssetCheckEvaluation]:
        if result.did_nothing:
            evaluations = known_evaluations(self._context.instance, self._key, self._runner)
            if evaluations:
                return evaluations
        return quality_evaluations(self._key, self._runner)

    def _delta(self) -> Metadata:
        """Report the Delta check and return the log's version; empty without a Delta log."""
        if "delta" not in self._product.options.formats:
            return {}
        evaluation = mirror_evaluation(self._key, self._product.spec, self._runner.catalog)
        self._context.log_event(evaluation)
        return delta_of(evaluation)
