"""How topics and tables are called in Dagster."""

from __future__ import annotations

import dagster as dg

from tableflow_assets.settings import Topic

CHECK_NAME = "exactly_once"
SUSPENSION_CHECK_NAME = "not_suspended"


def topic_key(topic: Topic) -> dg.AssetKey:
    return dg.AssetKey(["kafka", topic.name])


def table_key(topic: Topic, namespace: str) -> dg.AssetKey:
    return dg.AssetKey([namespace, topic.table])
