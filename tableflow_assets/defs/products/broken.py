"""A product that cannot be used is an asset all the same: its page says why, and a run of it fails.

So it neither disappears from the graph, nor keeps topics and other products from being loaded.
"""

import dagster as dg

from tableflow_assets.defs.partitions import ProductWindows
from tableflow_assets.product.load import BrokenProduct
from tableflow_assets.settings.settings import Settings


def broken_asset(
    product: BrokenProduct, settings: Settings, windows: ProductWindows
) -> dg.AssetsDefinition:
    key = dg.AssetKey([settings.namespace, product.name])

    @dg.multi_asset(
        specs=[
            dg.AssetSpec(
                key=key,
                description=(
                    f"**This product cannot be used.**\n\n{product.error}\n\n"
                    "Its table, if it has one, stays as it was. Correct it, then reload the definitions."
                ),
                group_name=product.options.group,
                owners=list(product.options.owners),
                kinds={*product.options.formats, "spark"},
                tags={"tableflow/broken": ""},
                partitions_def=windows.definition,
            )
        ],
        name=key.to_python_identifier(),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def refuse() -> None:
        raise dg.Failure(description=str(product.error), allow_retries=False)

    return refuse
