"""The sensor product_updates: when it asks for a run, for which products, and when it does not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from dagster._core.definitions.sensor_definition import SensorExecutionData

from tableflow_assets.defs.our_runs import RUN_TAG
from tableflow_assets.defs.products import updates as product_updates
from tableflow_assets.defs.products.updates import EVERY_SECONDS, SENSOR_NAME
from tableflow_assets.defs.resources import IcebergCatalogResource
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.conftest import Clock
from tableflow_assets_tests.defs.dagster_world import day, day_key
from tableflow_assets_tests.defs.products.world import Shop
from tableflow_assets_tests.support.crashes import break_the_look_at


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(product_updates, "time", clock)
    return clock


@pytest.fixture
def shop(stack: Stack, tmp_path: Path) -> Shop:
    return Shop(stack, tmp_path / "state")


@pytest.fixture
def current(shop: Shop) -> Shop:
    """A shop whose products are up to date."""
    shop.order(1, at=day(2))
    shop.pay(1, at=day(1))
    shop.land()
    shop.bring_up()
    return shop


def asked_for(tick: SensorExecutionData) -> set[str]:
    """The products of the one run, if there is one."""
    requests = tick.run_requests or []
    assert len(requests) <= 1
    return {key.path[-1] for one in requests for key in one.asset_selection or []}


def test_a_product_without_a_table_is_asked_for_with_all_that_is_made_of_it(shop: Shop) -> None:
    shop.order(1, at=day(2))
    shop.pay(1, at=day(1))
    shop.land()
    tick = shop.look_for_updates()
    assert asked_for(tick) == {shop.unique, shop.completed}
    (request,) = tick.run_requests or []
    assert request.partition_key == day_key(0)
    assert request.asset_check_keys == []
    assert request.tags[RUN_TAG] == SENSOR_NAME


def test_nothing_is_asked_for_while_an_input_has_no_rows(shop: Shop) -> None:
    tick = shop.look_for_updates()
    assert asked_for(tick) == set()
    assert f"{shop.payments.name} has no rows yet" in str(tick.skip_message)


def test_products_that_are_up_to_date_are_left_alone(current: Shop) -> None:
    tick = current.look_for_updates()
    assert asked_for(tick) == set()
    assert tick.skip_message == "2 products"


def test_a_burst_of_late_payments_of_many_days_is_one_run(current: Shop) -> None:
    for days_ago in range(9):
        current.pay(100 + days_ago, at=day(days_ago))
        current.land(current.payments)
    assert asked_for(current.look_for_updates()) == {current.unique, current.completed}


def test_a_change_of_the_second_input_asks_for_its_product_alone(current: Shop) -> None:
    current.order(2, at=day(1))
    current.land(current.orders)
    assert asked_for(current.look_for_updates()) == {current.completed}


def test_after_the_run_nothing_more_is_asked_for(current: Shop, clock: Clock) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    tick = current.look_for_updates()
    assert asked_for(tick)
    current.bring_up()
    clock.now += EVERY_SECONDS
    assert asked_for(current.look_for_updates(tick.cursor)) == set()


def test_the_next_run_waits_its_time_even_if_more_has_come(current: Shop, clock: Clock) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    tick = current.look_for_updates()
    current.bring_up()
    current.pay(3, at=day(1))
    current.land(current.payments)
    clock.now += EVERY_SECONDS - 1
    early = current.look_for_updates(tick.cursor)
    assert (asked_for(early), early.cursor) == (set(), tick.cursor)
    clock.now += 1
    assert asked_for(current.look_for_updates(early.cursor))


def test_requests_that_bear_no_fruit_become_rarer(current: Shop, clock: Clock) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    begin, cursor, asked = clock.now, None, []
    for second in range(0, 10 * EVERY_SECONDS, EVERY_SECONDS // 2):
        clock.now = begin + second
        tick = current.look_for_updates(cursor)
        cursor = tick.cursor
        if asked_for(tick):
            asked.append(second // EVERY_SECONDS)
    assert asked == [0, 1, 3, 7]


def test_a_product_that_fails_holds_up_no_other(current: Shop, clock: Clock) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    tick = current.look_for_updates()  # whose run never comes
    clock.now += EVERY_SECONDS
    again = current.look_for_updates(tick.cursor)
    current.order(2, at=day(1))
    current.land(current.orders)
    current.bring_up(current.completed)  # as after a run in which only the first failed
    current.order(3, at=day(1))
    current.land(current.orders)
    clock.now += EVERY_SECONDS
    third = current.look_for_updates(again.cursor)
    assert asked_for(third) == {current.completed}


def test_a_product_that_crashes_the_look_at_it_holds_up_no_other(
    current: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    break_the_look_at(current.completed, monkeypatch)
    tick = current.look_for_updates()
    assert asked_for(tick) == {current.unique}


def test_nothing_is_asked_for_while_a_run_is_under_way(current: Shop) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    job = current.definitions.resolve_implicit_global_asset_job_def()
    current.instance.create_run_for_job(job, tags={RUN_TAG: SENSOR_NAME})
    tick = current.look_for_updates()
    assert (asked_for(tick), tick.skip_message) == (set(), "a run is under way")


def test_compaction_of_an_input_changes_no_row_and_asks_for_nothing(current: Shop) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    current.bring_up()
    topic = current.topic(current.payments.name)
    chosen = {
        "topics": [topic.name],
        "windows": [day_key(0)],
        "strategy": "binpack",
        "include_newest": True,
    }
    before = current.table(topic.table).current_snapshot()
    assert current.run_job("compact", run_config={"ops": {"choose": {"config": chosen}}}).success
    assert current.table(topic.table).current_snapshot() != before
    assert asked_for(current.look_for_updates()) == set()


def test_another_sql_asks_for_the_product(current: Shop) -> None:
    products: dict[str, Any] = dict(current.settings.products)
    was = products[current.completed]
    products[current.completed] = ProductOptions(
        sql="completed_orders_with_method", inputs=was.inputs
    )
    current.with_settings(products=products)
    assert asked_for(current.look_for_updates()) == {current.completed}


def test_a_product_that_was_rolled_back_is_brought_up_again(current: Shop) -> None:
    before = current.table(current.unique).current_snapshot().snapshot_id
    current.pay(2, at=day(1))
    current.land(current.payments)
    current.bring_up()
    current.table(current.unique).manage_snapshots().set_current_snapshot(before).commit()
    assert asked_for(current.look_for_updates()) == {current.unique, current.completed}


def test_a_cursor_of_another_version_costs_nothing(current: Shop) -> None:
    tick = current.look_for_updates('{"asked": 7}')
    assert tick.skip_message == "2 products"


def test_a_product_that_a_stranger_wrote_to_is_computed_again(current: Shop) -> None:
    current.table(current.unique).append(current.table(current.unique).scan().to_arrow())
    assert asked_for(current.look_for_updates()) == {current.unique, current.completed}


def test_a_catalog_that_is_away_is_a_reason_to_skip(current: Shop, closed_port: int) -> None:
    away = IcebergCatalogResource(
        namespace="tableflow",
        catalog={"uri": f"http://127.0.0.1:{closed_port}"},
        s3=current.definitions.resources["tableflow_s3"],
    )
    began = time.monotonic()
    tick = current.look_for_updates(tableflow_catalog=away)
    assert "does not answer" in str(tick.skip_message)
    assert time.monotonic() - began < 60


def test_a_product_that_failed_before_has_a_run_of_its_own(current: Shop, clock: Clock) -> None:
    current.pay(2, at=day(1))
    current.land(current.payments)
    tick = current.look_for_updates()
    current.order(2, at=day(1))
    current.land(current.orders)
    current.bring_up(current.completed)  # as after a run in which only the first failed
    current.order(3, at=day(1))
    current.land(current.orders)
    clock.now += EVERY_SECONDS
    requests = current.look_for_updates(tick.cursor).run_requests or []
    runs = [{key.path[-1] for key in request.asset_selection or []} for request in requests]
    assert runs == [{current.completed}, {current.unique}]
