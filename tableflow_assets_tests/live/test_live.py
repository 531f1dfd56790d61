"""Dagster and the stack together: sensors, launches by hand, servers that die."""

from __future__ import annotations

import os
import signal
from contextlib import closing
from datetime import UTC, datetime

import pytest

from tableflow_assets.operate.status import status
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.stack import Stack
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify
from tableflow_assets_tests.live.dagster_api import DagsterApi, eventually
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic

TABLE = "tableflow/live_orders"


def is_current(settings: Settings, topic: KafkaTopic) -> bool:
    tableflow = Tableflow(settings)
    found = status(tableflow.log, tableflow.catalog, tableflow.topic(topic.name))
    return found.state == "current" and found.rows > 0


def is_clean(settings: Settings, topic: KafkaTopic) -> bool:
    with closing(Tableflow(settings)) as tableflow:
        known = tableflow.topic(topic.name)
        return all(r.ok for r in verify(tableflow.log, tableflow.catalog, known))


def test_a_new_topic_appears_and_lands_by_itself(
    api: DagsterApi, live_settings: Settings, orders: KafkaTopic
) -> None:
    orders.send(PAYMENT, [{"id": n, "amount": None} for n in range(20)])
    eventually(lambda: {"kafka/live.orders", TABLE} <= api.asset_keys())
    eventually(lambda: is_current(live_settings, orders))
    assert is_clean(live_settings, orders)
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    newest = eventually(lambda: api.materializations(TABLE))[0]
    assert newest["partition"] == today
    counts = {entry["label"]: entry.get("intValue") for entry in newest["metadataEntries"]}
    assert counts["dagster/row_count"] == counts["dagster/partition_row_count"] == 20


def test_a_window_launched_by_hand_runs(
    api: DagsterApi, live_settings: Settings, orders: KafkaTopic
) -> None:
    run = api.launch(TABLE, datetime.now(UTC).strftime("%Y-%m-%d"))
    done = eventually(
        lambda: (found := api.run_status(run)) in ("SUCCESS", "FAILURE", "CANCELED") and found
    )
    assert done == "SUCCESS"
    assert is_clean(live_settings, orders)


def kill_and_wait_until_back(stack: Stack, server: str) -> None:
    killed = stack.state.processes[server]
    os.kill(killed.pid, signal.SIGKILL)
    eventually(lambda: stack.is_ready(server) and stack.state.processes[server] != killed)


@pytest.mark.parametrize(
    "victims", [("kafka", "registry", "seaweed", "spark"), ("code_server", "daemon")], ids="+".join
)
def test_killed_servers_come_back_and_nothing_is_lost(
    victims: tuple[str, ...], live_stack: Stack, live_settings: Settings, orders: KafkaTopic
) -> None:
    """One after the other, each as soon as the one before is back: runs are under way meanwhile."""
    for victim in victims:
        orders.send(PAYMENT, [{"id": n, "amount": 1.0} for n in range(10)])
        kill_and_wait_until_back(live_stack, victim)
    orders.send(PAYMENT, [{"id": n, "amount": 2.0} for n in range(10)])
    eventually(lambda: is_current(live_settings, orders), seconds=240)
    assert is_clean(live_settings, orders)
