"""What Dagster is told of a product: the windows that have changed, and what the checks would say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import dagster as dg

from tableflow_assets.defs.follow.reports import Reporter
from tableflow_assets.defs.names import product_key
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.products.checks import quality_evaluations
from tableflow_assets.defs.products.follows_inputs import follows_inputs_evaluation
from tableflow_assets.defs.products.windows import changed_windows, delta_of
from tableflow_assets.defs.topics.delta_mirror import mirror_evaluation
from tableflow_assets.follow.products import ProductTurn
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import RunResult
from tableflow_assets.product.status import product_status
from tableflow_assets.tableflow import Tableflow


class ProductReporter(Reporter[ProductTurn]):
    def __init__(
        self, context: dg.OpExecutionContext, tableflow: Tableflow, windows: ProductWindows
    ) -> None:
        super().__init__(context, tableflow)
        self._windows = windows

    def report(self, turns: Sequence[ProductTurn], is_full: bool) -> None:
        product, namespace = turns[-1].product, self.tableflow.settings.namespace
        result = reduce(RunResult.and_then, (turn.result for turn in turns))
        key, runner = product_key(product, namespace), self.tableflow.runner(product)
        delta = {}
        if "delta" in product.options.formats:
            mirrored = mirror_evaluation(key, product.spec, self.tableflow.catalog)
            self.log_check(mirrored, is_full)
            delta = delta_of(mirrored)
        windows = changed_windows(self.context, runner, namespace, self._windows, result)
        for window, about in windows.items():
            metadata = about | delta
            self.log_event(dg.AssetMaterialization(key, partition=window, metadata=metadata))
        self._report_lag(product, is_full=is_full)
        self.report_catalogs(key, turns, is_full)
        if is_full:
            for evaluation in quality_evaluations(key, runner):
                self.log_event(evaluation)

    def report_problem(self, turn: ProductTurn) -> None:
        self._report_lag(turn.product, str(turn.error or ""), is_full=True)

    def _report_lag(self, product: Product, problem: str = "", *, is_full: bool) -> None:
        settings = self.tableflow.settings
        status = product_status(self.tableflow.catalog, product, settings.state_dir)
        key = product_key(product, settings.namespace)
        self.log_check(follows_inputs_evaluation(key, status, problem), is_full)
