"""Runs of products on the real stack: what lands, and what Dagster is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.stack.stack import Stack
from tableflow_assets_tests.defs.dagster_world import day, day_key, rows_of
from tableflow_assets_tests.defs.products.world import Shop, evaluations, reported


@pytest.fixture
def shop(stack: Stack, tmp_path: Path) -> Shop:
    return Shop(stack, tmp_path / "state")


@dataclass
class Updated:
    """One run of both products, over payments of several days, looked at by many tests."""

    shop: Shop
    run: ExecuteInProcessResult

    def windows(self, product: str) -> dict[str, dict[str, Any]]:
        return reported(self.run, self.shop.key(product))

    def today(self, product: str) -> dict[str, Any]:
        return self.windows(product)[str(self.run.dagster_run.tags["dagster/partition"])]


@pytest.fixture(scope="module")
def updated(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Updated]:
    shop = Shop(stack, tmp_path_factory.mktemp("shop"))
    shop.order(1, 2, 3, at=day(2))
    shop.order(4, at=day(9))
    shop.pay(1, 2, at=day(2) + timedelta(hours=1))
    shop.pay(3, at=day(1))
    shop.pay(4, at=day(9) + timedelta(hours=1))  # older than the first window
    shop.pay(5, at=day(0))  # has no order
    shop.land()
    yield Updated(shop, shop.update())


def test_a_run_brings_a_product_and_what_is_made_of_it_up_to_date(updated: Updated) -> None:
    assert updated.run.success
    assert rows_of(updated.shop.table(updated.shop.unique)) == 5
    assert rows_of(updated.shop.table(updated.shop.completed)) == 4


def test_every_window_that_a_run_touched_is_reported_with_its_own_count(updated: Updated) -> None:
    counts = {
        key: about["rows_changed"] for key, about in updated.windows(updated.shop.unique).items()
    }
    # What is older than the first window counts to the first.
    assert counts == {day_key(3): 1, day_key(2): 2, day_key(1): 1, day_key(0): 1}
    of_completed = updated.windows(updated.shop.completed)
    assert {key: about["rows_changed"] for key, about in of_completed.items()} == {
        day_key(3): 1,
        day_key(2): 2,
        day_key(1): 1,
        day_key(0): 0,  # launched, so it is told
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dagster/row_count", 5),
        ("rows_added", 5),
        ("rows_removed", 0),
        ("values_recomputed", "all"),
    ],
)
def test_the_launched_window_says_what_the_run_did(
    updated: Updated, name: str, value: object
) -> None:
    assert updated.today(updated.shop.unique)[name] == value


def test_the_launched_window_names_the_snapshots_that_the_rows_are_made_of(
    updated: Updated,
) -> None:
    shop, about = updated.shop, updated.today(updated.shop.completed)
    inputs = {
        record.data["table"]: record.data["snapshot_id"] for record in about["inputs"].records
    }
    of_unique = updated.today(shop.unique)["snapshot_id"]
    orders = shop.table(shop.orders.name).current_snapshot().snapshot_id
    assert inputs == {shop.unique: of_unique, shop.orders.name: str(orders)}
    head = shop.table(shop.completed).current_snapshot().snapshot_id
    assert about["snapshot_id"] == str(head)


def test_the_launched_window_shows_columns_place_watermark_and_delta_version(
    updated: Updated,
) -> None:
    about = updated.today(updated.shop.unique)
    columns = [column.name for column in about["dagster/column_schema"].columns]
    assert columns[0] == "order_id"
    assert about["dagster/uri"] == updated.shop.table(updated.shop.unique).location()
    newest = day(0) - timedelta(seconds=5)
    assert about["watermark"] == newest.timestamp()
    assert about["delta_version"] >= 0


def test_columns_lead_to_the_columns_of_the_inputs(updated: Updated) -> None:
    shop, about = updated.shop, updated.today(updated.shop.completed)
    deps = about["dagster/column_lineage"].deps_by_column
    assert deps["amount"] == [dg.TableColumnDep(shop.key(shop.unique), "amount")]
    defined = shop.definitions.resolve_asset_graph().get(shop.key(shop.unique)).metadata
    (from_topic,) = defined["dagster/column_lineage"].value.deps_by_column["ts"]
    assert from_topic == dg.TableColumnDep(shop.key(shop.payments.name), "ts")


def test_a_run_evaluates_the_checks_of_the_header_after_its_commit(updated: Updated) -> None:
    found = evaluations(updated.run, updated.shop.key(updated.shop.unique))
    assert {name: one.passed for name, one in found.items()} == {
        "delta_mirror": True,
        "no_order_twice": True,
        "amounts_are_positive": True,
    }


def test_a_run_without_changes_adds_no_snapshot_and_says_so(updated: Updated) -> None:
    shop = updated.shop
    before = shop.table(shop.unique).metadata.snapshots
    run = shop.update()
    assert shop.table(shop.unique).metadata.snapshots == before
    (about,) = reported(run, shop.key(shop.unique)).values()
    assert (about["rows_added"], about["rows_changed"], about["values_recomputed"]) == (0, 0, 0)


def test_checks_say_again_what_they_said_of_rows_that_did_not_change(updated: Updated) -> None:
    """Else Dagster would show them as not evaluated since the newest materialization."""
    shop = updated.shop
    key, check = shop.key(shop.unique), "no_order_twice"
    head = str(shop.table(shop.unique).current_snapshot().snapshot_id)
    said = evaluations(updated.run, key)[check]
    again = evaluations(shop.update(), key)[check]
    assert again.passed
    assert again.metadata == said.metadata
    assert again.metadata["snapshot_id"].value == head


def test_a_columns_description_says_where_it_comes_from(updated: Updated) -> None:
    shop = updated.shop
    columns = updated.today(shop.completed)["dagster/column_schema"].columns
    described = {column.name: column.description for column in columns}
    assert described["amount"].endswith(f"From {shop.unique}.amount.")


def test_all_checks_of_a_product_pass_in_the_job(updated: Updated) -> None:
    run = updated.shop.run_job("check_products")
    for product in (updated.shop.unique, updated.shop.completed):
        found = evaluations(run, updated.shop.key(product))
        assert {"recomputed_equals", "delta_mirror", "maintenance"} <= found.keys()
        assert all(one.passed for one in found.values())
        compared = found["recomputed_equals"].metadata["rows_compared"].value
        assert compared == rows_of(updated.shop.table(product))


def test_the_verify_job_leaves_products_to_their_own(updated: Updated) -> None:
    layer = updated.shop.definitions.resolve_job_def("verify").asset_layer
    checked = {key.asset_key for key in layer.asset_graph.asset_check_keys}
    assert updated.shop.key(updated.shop.payments.name) in checked
    assert updated.shop.key(updated.shop.unique) not in checked


def test_the_maintenance_of_a_product_is_that_of_any_table(updated: Updated) -> None:
    chosen = {"ops": {"choose": {"config": {"topics": [updated.shop.unique], "dry_run": True}}}}
    assert updated.shop.run_job("maintain", run_config=chosen).success


# ---- one more thing happens ----


def test_a_late_payment_changes_and_reports_its_own_window_alone(shop: Shop) -> None:
    shop.order(1, 2, at=day(2))
    shop.pay(1, 2, at=day(1))
    shop.land()
    shop.update()

    shop.pay(1, at=day(2) + timedelta(hours=2))  # an earlier one, reported later
    shop.land(shop.payments)
    run = shop.update()

    windows = reported(run, shop.key(shop.completed))
    assert {key: about["rows_changed"] for key, about in windows.items()} == {
        day_key(2): 1,
        day_key(1): 1,
        day_key(0): 0,
    }
    about = windows[day_key(0)]
    assert (about["rows_added"], about["rows_removed"], about["values_recomputed"]) == (1, 1, 1)


def test_a_check_that_fails_shows_the_rows_and_stops_nothing(shop: Shop) -> None:
    shop.order(1, at=day(1))
    shop.pay(1, at=day(1), amount=-3.0)
    shop.pay(2, at=day(1), amount=5.0)
    shop.land()

    run = shop.update()

    assert run.success
    found = evaluations(run, shop.key(shop.unique))["amounts_are_positive"]
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert found.metadata["offending"].value == 1
    (row,) = found.metadata["rows"].records
    assert row.data == {"order_id": 1, "amount": -3.0}
    assert rows_of(shop.table(shop.completed)) == 1


def test_a_product_whose_input_has_no_table_waits_for_it(shop: Shop) -> None:
    run = shop.update()
    assert run.success
    assert not [event for event in run.all_events if event.is_step_materialization]
    assert shop.catalog.find(shop.unique) is None


def test_a_product_of_two_inputs_waits_for_the_second(shop: Shop) -> None:
    shop.pay(1, at=day(1))
    shop.land(shop.payments)
    run = shop.update()
    assert run.success
    assert list(reported(run, shop.key(shop.unique))) == [day_key(1), day_key(0)]
    assert reported(run, shop.key(shop.completed)) == {}


def test_a_backfill_of_all_windows_is_one_run_that_tells_each_its_own(shop: Shop) -> None:
    shop.pay(1, at=day(1))
    shop.pay(2, 3, at=day(2))
    shop.land(shop.payments)
    windows = {
        "dagster/asset_partition_range_start": day_key(3),
        "dagster/asset_partition_range_end": day_key(0),
    }
    run = shop.update(shop.unique, partition_key=None, tags=windows)
    told = reported(run, shop.key(shop.unique))
    assert {key: about["rows_changed"] for key, about in told.items()} == {
        day_key(3): 0,
        day_key(2): 2,
        day_key(1): 1,
        day_key(0): 0,
    }


def test_rows_of_the_future_land_without_failing_the_run(shop: Shop) -> None:
    shop.pay(1, at=datetime.now(UTC) + timedelta(days=400))
    shop.land(shop.payments)
    run = shop.update(shop.unique)
    assert run.success
    assert rows_of(shop.table(shop.unique)) == 1
    assert list(reported(run, shop.key(shop.unique))) == [day_key(0)]


def test_a_product_that_fails_says_why_and_leaves_what_is_made_of_it_as_it_was(
    shop: Shop, tmp_path: Path
) -> None:
    shop.order(1, at=day(1))
    shop.pay(1, at=day(1))
    shop.land()
    shop.bring_up()
    sql = files("tableflow_assets.product").joinpath("sql/unique_payments.sql").read_text("utf-8")
    (tmp_path / "broken.sql").write_text(sql.replace("  product_id,", "  no_such AS product_id,"))
    products = dict(shop.settings.products)
    broken = {"sql": str(tmp_path / "broken.sql")}
    products[shop.unique] = products[shop.unique].model_copy(update=broken)
    shop.with_settings(products=products)
    shop.order(2, at=day(1))
    shop.land(shop.orders)
    before = shop.table(shop.completed).current_snapshot()

    run = shop.update(raise_on_error=False)

    (failure,) = (event for event in run.all_events if event.is_step_failure)
    assert "Spark does not understand the product" in str(failure.step_failure_data.error)
    assert shop.table(shop.completed).current_snapshot() == before
    assert shop.update(shop.completed).success  # without it, the other goes on
