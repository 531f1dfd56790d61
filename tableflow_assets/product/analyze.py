"""Whether Spark understands a product: its SELECT, its `changes` and its checks, without running them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from tableflow_assets.base.spark_session import named_view
from tableflow_assets.product import flink
from tableflow_assets.product.affected import refuse_unknown_columns
from tableflow_assets.product.definition import CHANGED, ITSELF
from tableflow_assets.product.inputs import computed
from tableflow_assets.product.runner import Runner
from tableflow_assets.product.spark_refusals import understood


def analyze(runner: Runner) -> None:
    """Raises ProductFailed with file and line; InputMissing if an input has no table yet."""
    product, inputs = runner.product, runner.inputs()
    definition = product.definition
    refuse_unknown_columns(product, inputs)
    with ExitStack() as views:
        with understood(definition):
            rows = computed(runner.spark, product, inputs, None, views)
            itself = views.enter_context(named_view(runner.spark, rows))
        sources = {ITSELF: flink.Source(itself, is_topic=False)}
        for pinned in inputs:
            relation = runner.spark.sql(f"SELECT * FROM {pinned.relation}")  # noqa: S608  (quoted)
            view = views.enter_context(named_view(runner.spark, relation))
            sources[pinned.input.name] = pinned.input.source(view)
        for name, affects in definition.header.changes.items():
            if isinstance(affects, str):
                changed = flink.Source(sources[name].view, is_topic=False)
                _analyze(runner, affects, sources | {CHANGED: changed})
        for query in definition.header.checks.values():
            _analyze(runner, query, sources)


def _analyze(runner: Runner, query: str, sources: Mapping[str, flink.Source]) -> None:
    with understood(runner.product.definition):
        _ = runner.spark.sql(flink.in_spark(flink.parse(query), sources)).schema
