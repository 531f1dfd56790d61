"""The asset check of every product: has it taken in what its inputs have gained?"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import dagster as dg

from tableflow_assets.defs.check_results import check_result
from tableflow_assets.defs.names import FOLLOWS_CHECK_NAME, product_key
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.product.products import Product
from tableflow_assets.product.status import ProductStatus, product_status
from tableflow_assets.settings.settings import Settings

LATE = timedelta(minutes=15)  # a round of all products, on a busy machine, takes a few minutes


def follows_inputs_check(product: Product, settings: Settings) -> dg.AssetChecksDefinition:
    key = product_key(product, settings.namespace)

    @dg.asset_check(
        name=FOLLOWS_CHECK_NAME,
        asset=key,
        description="Fails if it cannot take in what its inputs have gained, or is late with it.",
    )
    def follows_inputs(tableflow_catalog: IcebergCatalogResource) -> dg.AssetCheckResult:
        status = product_status(tableflow_catalog.client(), product, settings.state_dir)
        return check_result(follows_inputs_evaluation(key, status))

    return follows_inputs


def follows_inputs_evaluation(
    key: dg.AssetKey, status: ProductStatus, problem: str = ""
) -> dg.AssetCheckEvaluation:
    """The outcome of the check; a run that stays reports it too. ``problem``: what a run failed with."""
    lag = status.lag(datetime.now(UTC))
    return dg.AssetCheckEvaluation(
        key,
        FOLLOWS_CHECK_NAME,
        passed=not problem and status.state != "error" and lag <= LATE,
        severity=dg.AssetCheckSeverity.WARN,  # what it holds is right, as of then
        description=problem or status.reason or _says(status, lag),
        metadata={
            "state": status.state,
            "lag_seconds": round(lag.total_seconds()),
            "behind": ", ".join(status.behind) or "nothing",
        },
    )


def _says(status: ProductStatus, lag: timedelta) -> str:
    inputs = ", ".join(status.behind)
    if status.state == "waiting":
        return f"It waits for {inputs}, without a table yet."
    if inputs:
        return f"The oldest change of {inputs} that it lacks is {round(lag.total_seconds())} s old."
    return "It has taken in all that its inputs have."
