"""The run that stays, on the real stack: what it commits, what Dagster is told, and how it ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.execute_in_process_result import ExecuteInProcessResult

from tableflow_assets.base.errors import DataLoss
from tableflow_assets.defs import staying
from tableflow_assets.defs.follow.job import follow_job
from tableflow_assets.defs.names import table_pool
from tableflow_assets.defs.partitions import windows_of_products
from tableflow_assets.defs.staying import HANDS_OVER_TAG, Staying, is_alive
from tableflow_assets.follow.pace import Pace
from tableflow_assets.product.load import load_products
from tableflow_assets.settings.product_options import ProductOptions
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.suspension import clear, suspend
from tableflow_assets_tests.defs.conftest import MakeWorld
from tableflow_assets_tests.defs.dagster_world import (
    DagsterWorld,
    day,
    day_key,
    leave_a_run,
    payments,
    rows_of,
)
from tableflow_assets_tests.defs.products.world import Shop
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

SHORT = Pace(look_seconds=0.1, idle_seconds=1.5)


def stay(world: DagsterWorld, pace: Pace = SHORT) -> ExecuteInProcessResult:
    products = load_products(world.settings).usable
    windows = windows_of_products(products, world.topics)
    return follow_job(world.settings, windows, pace).execute_in_process(
        instance=world.instance, resources=world.definitions.resources
    )


def reported(run: ExecuteInProcessResult) -> dict[tuple[str, str], dict[str, Any]]:
    """By table and window, what the last event said of it."""
    found = {}
    for event in run.all_events:
        if event.is_step_materialization:
            done = event.step_materialization_data.materialization
            about = {name: value.value for name, value in done.metadata.items()}
            found[done.asset_key.path[-1], str(done.partition)] = about
    return found


def checks(run: ExecuteInProcessResult, table: str) -> dict[str, bool]:
    return {
        found.check_name: found.passed
        for found in run.get_asset_check_evaluations()
        if found.asset_key.path[-1] == table
    }


def test_it_commits_for_all_topics_and_reports_windows_and_checks(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3))
    other_topic.send(PAYMENT, payments(2))
    world = world_of(kafka_topic.name, other_topic.name)

    run = stay(world)

    windows = reported(run)
    for topic, rows in ((kafka_topic, 3), (other_topic, 2)):
        table = world.topic(topic.name).table
        assert rows_of(world.table(topic.name)) == rows
        about = windows[table, day_key(0)]
        assert about["dagster/partition_row_count"] == about["rows_committed"] == rows
        assert checks(run, table) == {"delta_mirror": True, "exactly_once": True}
        assert checks(run, f"{table}__dead_letters") == {"dead_letter_rate": True}


def test_what_comes_while_it_stays_is_committed_and_summed_up(
    world_of: MakeWorld, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name)

    def send_more() -> None:
        for _ in range(3):
            time.sleep(1.2)
            kafka_topic.send(PAYMENT, payments(1))

    producer = threading.Thread(target=send_more)
    producer.start()
    run = stay(world, replace(SHORT, idle_seconds=4))
    producer.join()

    assert rows_of(world.table(kafka_topic.name)) == 4
    ours = [about for (table, _), about in reported(run).items() if "dead" not in table]
    assert len([e for e in run.all_events if e.is_step_materialization]) < 4  # not one per commit
    assert ours[-1]["dagster/row_count"] == 4


def test_a_suspended_topic_is_reported_and_the_others_go_on(
    world_of: MakeWorld, kafka_topic: KafkaTopic, other_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name, other_topic.name)
    stay(world)
    kafka_topic.send(PAYMENT, payments(1))
    other_topic.send(PAYMENT, payments(1))
    suspend(world.catalog, world.topic(kafka_topic.name), DataLoss("5 offsets expired."))

    run = stay(world)

    assert rows_of(world.table(other_topic.name)) == 1
    assert rows_of(world.table(kafka_topic.name)) == 1
    assert checks(run, world.topic(kafka_topic.name).table) == {"not_suspended": False}
    clear(world.catalog, world.topic(kafka_topic.name))
    stay(world)
    assert rows_of(world.table(kafka_topic.name)) == 2


def test_a_table_that_another_run_works_on_is_left_alone_until_that_one_is_done(
    world_of: MakeWorld, kafka_topic: KafkaTopic, tmp_path: Path
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    world = world_of(kafka_topic.name)
    world.instance = dg.DagsterInstance.local_temp(str(tmp_path))  # the other kind has no pools
    pools = world.instance.event_log_storage
    pool = table_pool(world.topic(kafka_topic.name))
    pools.set_concurrency_slots(pool, 1)
    assert pools.claim_concurrency_slot(pool, "by-hand", "materialize").is_claimed
    timer = threading.Timer(3, pools.free_concurrency_slots_for_run, ["by-hand"])
    timer.start()
    began = time.monotonic()

    stay(world, replace(SHORT, idle_seconds=6))

    assert time.monotonic() - began > 3
    assert rows_of(world.table(kafka_topic.name)) == 1


# ---- products ----


@pytest.fixture
def shop(stack: Stack, tmp_path: Path) -> Shop:
    shop = Shop(stack, tmp_path / "state")
    shop.order(1, 2, at=day(2))
    shop.pay(1, 2, at=day(1))
    return shop


def test_products_take_in_what_was_committed_and_are_reported_like_topics(shop: Shop) -> None:
    run = stay(shop)

    assert rows_of(shop.table(shop.unique)) == rows_of(shop.table(shop.completed)) == 2
    about = reported(run)[shop.unique, day_key(1)]
    assert about["rows_changed"] == about["dagster/row_count"] == 2
    assert checks(run, shop.unique) == {
        "delta_mirror": True,
        "follows_inputs": True,
        "no_order_twice": True,
        "amounts_are_positive": True,
    }
    assert checks(run, shop.completed)["paid_within_96_hours"]


def test_a_product_that_fails_is_reported_once_and_holds_up_no_other(shop: Shop) -> None:
    broken = ProductOptions(sql="unique_payments", inputs={"payments": shop.orders.name})
    shop.with_settings(products=shop.settings.products | {shop.completed: broken})

    run = stay(shop)

    assert rows_of(shop.table(shop.unique)) == 2
    assert checks(run, shop.unique)["follows_inputs"]
    assert checks(run, shop.completed) == {"follows_inputs": False}


def test_the_sensor_of_products_leaves_them_to_a_run_that_stays(shop: Shop) -> None:
    shop.land()
    assert shop.look_for_updates().run_requests
    leave_a_run(shop.instance, dg.DagsterRunStatus.STARTED)
    assert not shop.look_for_updates().run_requests


# ---- one run hands over to the next ----


@pytest.fixture
def instance() -> Iterable[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


def test_without_a_run_none_is_alive(instance: dg.DagsterInstance) -> None:
    assert not is_alive(instance, time.time())


@pytest.mark.parametrize("status", [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.STARTING])
def test_a_run_that_is_about_to_start_counts(
    instance: dg.DagsterInstance, status: dg.DagsterRunStatus
) -> None:
    leave_a_run(instance, status)
    assert is_alive(instance, time.time())


def test_a_run_that_no_longer_reports_is_taken_for_dead(instance: dg.DagsterInstance) -> None:
    """Killed, it would hold up the next until a monitor notices."""
    run = leave_a_run(instance, dg.DagsterRunStatus.STARTED)
    assert not Staying(instance, run).is_over()
    assert is_alive(instance, time.time())
    assert not is_alive(instance, time.time() + staying.STARTING_SECONDS)


def test_after_its_longest_time_it_asks_for_a_successor_and_waits_for_it(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staying, "LONGEST_SECONDS", 0.0)
    first = leave_a_run(instance, dg.DagsterRunStatus.STARTED)
    old = Staying(instance, first)
    assert not old.is_over()
    run = instance.get_run_by_id(first)
    assert run is not None and HANDS_OVER_TAG in run.tags
    assert not is_alive(instance, time.time()), "so the sensor launches the next"
    assert not old.is_over(), "it goes on until that one reports"

    second = leave_a_run(instance, dg.DagsterRunStatus.STARTED)
    assert not Staying(instance, second).is_over()
    monkeypatch.setattr(old, "_next", 0.0)
    assert old.is_over()


def test_a_report_of_another_version_does_no_harm(instance: dg.DagsterInstance) -> None:
    storage = instance.daemon_cursor_storage
    storage.set_cursor_values({staying._CURSOR: json.dumps({"run": "x", "since": 1})})
    leave_a_run(instance, dg.DagsterRunStatus.STARTED)
    assert is_alive(instance, time.time())
