"""A product that cannot be used: its own asset says so, and everything else goes on."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg
import pytest

from tableflow_assets import build_definitions
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.settings.settings import Settings, TopicOptions
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import day
from tableflow_assets_tests.defs.products.world import Shop
from tableflow_assets_tests.product.broken_sql import WRONG_COLUMN


def test_definitions_load_and_a_run_of_the_broken_product_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "odd.sql").write_text(WRONG_COLUMN.replace("amont,", "amount ),"))
    settings = Settings(
        state_dir=tmp_path,
        topics={"payments": TopicOptions()},
        products={
            "lost": ProductOptions(sql="lost.sql"),
            "odd": ProductOptions(sql=str(tmp_path / "odd.sql"), group="shop"),
            "unique_payments": ProductOptions(),
        },
    )
    with caplog.at_level(logging.WARNING):
        definitions = build_definitions(settings)
    assert "'lost' cannot be read" in caplog.text
    assert f"{tmp_path / 'odd.sql'}:11: its SQL cannot be parsed" in caplog.text
    keys = definitions.get_repository_def().asset_graph.get_all_asset_keys()
    assert {key.path[-1] for key in keys} >= {"payments", "unique_payments", "lost", "odd"}

    job = definitions.resolve_implicit_global_asset_job_def()
    odd = job.get_subset(asset_selection={dg.AssetKey([settings.namespace, "odd"])})
    with pytest.raises(dg.Failure, match="its SQL cannot be parsed"):
        odd.execute_in_process(partition_key=datetime.now(UTC).date().isoformat())


def test_the_others_of_a_run_are_made_and_the_failure_names_file_and_line(
    stack: Stack, tmp_path: Path
) -> None:
    shop = Shop(stack, tmp_path / "state")
    file = tmp_path / "wrong.sql"
    file.write_text(WRONG_COLUMN)
    wrong = f"{shop.unique}_wrong"
    options = ProductOptions(sql=str(file), inputs={"payments": shop.payments.name})
    shop.with_settings(products={wrong: options, **shop.settings.products})
    shop.order(1, at=day(2))
    shop.pay(1, at=day(1))
    shop.land()
    run = shop.update(wrong, shop.unique, shop.completed, raise_on_error=False)
    assert not run.success
    made = {event.asset_key for event in run.get_asset_materialization_events()}
    assert made == {shop.key(shop.unique), shop.key(shop.completed)}
    (failure,) = (event for event in run.all_events if event.is_step_failure)
    assert f"{file}:11: " in str(failure.event_specific_data)
