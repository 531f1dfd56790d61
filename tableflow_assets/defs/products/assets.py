"""A product as an asset: a run brings it up to all changes of its inputs, whichever window is launched."""

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
    product_run_metadata,
)
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.defs.topics.delta_mirror import mirror_evaluation
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import Done, Runner
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
            done = runner.run(context.run.run_id)
        except InputMissing as error:  # it follows by itself as soon as the input is there
            context.log.warning(str(error))
            return
        reached("before_event")
        _Report(context, runner, settings.namespace, windows).tell(done)
        tell(context, product.spec, settings, done.catalogs)
        yield dg.MaterializeResult()

    return update


def _spec(product: Product, settings: Settings, windows: ProductWindows) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=product_key(product, settings.namespace),
        deps=[input_key(one, settings.namespace) for one in product.inputs],
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
    """What Dagster is told after a commit: nothing that fails here undoes it."""

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

    def tell(self, done: Done) -> None:
        table, _ = self._runner.table()
        if table is None:
            raise AssertionError(f"{self._product.name} was committed to and is not in the catalog")
        delta = self._delta()
        about = product_run_metadata(self._product, self._namespace, table, done) | delta
        self._tell_windows(about, done)
        self._context.log.info(_summary(done))
        for evaluation in self._evaluations(done):
            self._context.log_event(evaluation)

    def _evaluations(self, done: Done) -> list[dg.AssetCheckEvaluation]:
        if done.did_nothing:
            known = known_evaluations(self._context.instance, self._key, self._runner)
            if known:
                return known
        return quality_evaluations(self._key, self._runner)

    def _delta(self) -> Metadata:
        """The Delta log's version, once its check is told; nothing where there is none."""
        if "delta" not in self._product.options.formats:
            return {}
        evaluation = mirror_evaluation(self._key, self._product.spec, self._runner.catalog)
        self._context.log_event(evaluation)
        kept = ("delta_version", "delta_path")
        return {name: value for name, value in evaluation.metadata.items() if name in kept}

    def _tell_windows(self, about: Metadata, done: Done) -> None:
        changed: dict[str, int] = {}
        for day, rows in done.windows.items():
            key = self._windows.key(day)
            changed[key] = changed.get(key, 0) + rows
        launched = set(self._context.partition_keys)
        for key in launched:
            told: Metadata = about | {"rows_changed": changed.get(key, 0)}
            self._context.add_asset_metadata(told, partition_key=key)
        # Windows that nobody launched, but that this run changed.
        for key in sorted(changed.keys() - launched):
            if not self._windows.definition.has_partition_key(key):
                self._context.log.warning(f"{changed[key]} rows are of the future, window {key}")
                continue
            told = about | {"rows_changed": changed[key]}
            self._context.log_event(
                dg.AssetMaterialization(self._key, metadata=told, partition=key)
            )


def _summary(done: Done) -> str:
    if done.did_nothing:
        return "nothing has changed in what it reads"
    values = "all of it" if done.values_affected is None else f"{done.values_affected} values"
    return f"{values} computed again: {done.rows_added} rows came, {done.rows_removed} went"
