"""Another catalog beside a running stack: it follows by itself, also after it was away."""

from __future__ import annotations

from typing import Any

from tableflow_assets.publish.publisher import Publisher
from tableflow_assets.settings.settings import Settings
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.live.dagster_api import DagsterApi, eventually
from tableflow_assets_tests.live.test_live import is_clean, is_current
from tableflow_assets_tests.publish.worlds.glue import GlueWorld
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic


def is_shown(settings: Settings, glue: GlueWorld, topic: KafkaTopic) -> bool:
    tableflow = Tableflow(settings)
    source = Publisher(settings, tableflow.catalog).source(tableflow.topic(topic.name).table)
    if source is None:
        return False
    try:
        shown: dict[str, Any] = glue.table(source)["Parameters"]
    except glue.client().exceptions.EntityNotFoundException:
        return False
    return bool(shown["metadata_location"] == source.metadata_location)


def test_a_catalog_follows_and_catches_up_after_it_was_away(
    api: DagsterApi, live_settings: Settings, orders: KafkaTopic, glue: GlueWorld
) -> None:
    orders.send(PAYMENT, [{"id": n, "amount": None} for n in range(10)])
    eventually(lambda: is_current(live_settings, orders))
    eventually(lambda: is_shown(live_settings, glue, orders))
    assert "catalogs/analytics" in api.asset_keys()

    writes = glue.writes()
    with glue.is_down():
        orders.send(PAYMENT, [{"id": n, "amount": 0.5} for n in range(10)])
        eventually(lambda: is_current(live_settings, orders))  # the table does not wait for it
        assert is_clean(live_settings, orders)
        eventually(lambda: not api.unfinished_runs())  # a run publishes after it has committed
        assert glue.writes() == writes
    eventually(lambda: is_shown(live_settings, glue, orders), seconds=180)  # nobody sent anything
    eventually(
        lambda: api.materializations("catalogs/analytics")
    )  # by a run that the sensor asked for
