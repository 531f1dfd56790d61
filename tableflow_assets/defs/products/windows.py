"""What Dagster learns of the windows that runs of a product have changed."""

from __future__ import annotations

from collections.abc import Collection

import dagster as dg

from tableflow_assets.defs.metadata import Metadata
from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.defs.products.metadata import product_run_metadata
from tableflow_assets.product.runner import Runner, RunResult


def changed_windows(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    runner: Runner,
    namespace: str,
    windows: ProductWindows,
    result: RunResult,
    launched: Collection[str] = (),
) -> dict[str, Metadata]:
    """By key, the metadata of the windows that were changed and of those that were ``launched``.

    Windows that Dagster does not know yet, because their rows are of the future, are only logged.
    """
    table, _ = runner.table()
    if table is None:
        raise AssertionError(f"{runner.product.name} was committed to and is not in the catalog")
    about = product_run_metadata(runner.product, namespace, table, result)
    rows_changed: dict[str, int] = dict.fromkeys(launched, 0)
    for day, rows in result.windows.items():
        key = windows.key(day)
        rows_changed[key] = rows_changed.get(key, 0) + rows
    known = {}
    for key, rows in sorted(rows_changed.items()):
        if key in launched or windows.definition.has_partition_key(key):
            known[key] = about | {"rows_changed": rows}
        else:
            context.log.warning(f"{rows} rows are of the future, window {key}")
    return known


def delta_of(mirrored: dg.AssetCheckEvaluation) -> Metadata:
    """The part of the Delta check's metadata that is about the log itself."""
    names = ("delta_version", "delta_path")
    return {name: value for name, value in mirrored.metadata.items() if name in names}
