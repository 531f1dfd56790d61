"""The checks of a product's header, over the product and its inputs as they were when it was made."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tableflow_assets.product.quality import EXAMPLES, run_checks
from tableflow_assets.product.runner import Runner
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.defs.dagster_world import day
from tableflow_assets_tests.defs.products.world import Shop


def runner(shop: Shop, name: str) -> Runner:
    (product,) = (candidate for candidate in shop.products if candidate.name == name)
    return Tableflow(shop.settings).runner(product)


@pytest.fixture(scope="module")
def shop(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """More wrong payments than are shown; and all is as it should be with the orders."""
    shop = Shop(stack, tmp_path_factory.mktemp("shop"))
    shop.order(1, at=day(2))
    shop.pay(1, at=day(1))
    shop.pay(*range(100, 100 + EXAMPLES + 5), at=day(1), amount=0.0)
    shop.land()
    shop.bring_up()
    yield shop


def test_a_check_that_finds_nothing_passes(shop: Shop) -> None:
    (results,) = run_checks(runner(shop, shop.completed))
    assert (results.name, results.passed, results.offending) == ("paid_within_96_hours", True, 0)
    assert results.columns == ("order_id", "ts", "orderdate")
    assert results.rows == ()


def test_all_rows_are_counted_and_some_are_shown(shop: Shop) -> None:
    results = {result.name: result for result in run_checks(runner(shop, shop.unique))}
    assert results["no_order_twice"].passed
    amounts = results["amounts_are_positive"]
    assert (amounts.passed, amounts.offending) == (False, EXAMPLES + 5)
    assert len(amounts.rows) == EXAMPLES
    assert all(row["amount"] == 0 and row["order_id"] >= 100 for row in amounts.rows)


def test_one_check_can_be_run_alone(shop: Shop) -> None:
    results = run_checks(runner(shop, shop.unique), ["no_order_twice"])
    assert [result.name for result in results] == ["no_order_twice"]


def test_that_an_input_has_moved_on_is_no_finding(shop: Shop) -> None:
    shop.order(1, at=day(9))  # by which the payment would be too late
    shop.land(shop.orders)
    (before,) = run_checks(runner(shop, shop.completed))
    shop.bring_up()
    (after,) = run_checks(runner(shop, shop.completed))
    assert (before.passed, after.passed) == (True, True)


def test_a_product_without_rows_has_nothing_to_check(stack: Stack, tmp_path: Path) -> None:
    shop = Shop(stack, tmp_path / "state", day(2).date() - timedelta(days=1))
    assert run_checks(runner(shop, shop.unique)) == []
