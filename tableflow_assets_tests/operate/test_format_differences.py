"""The harness's comparison of both formats: a difference is found, a mirror behind is no harm."""

from __future__ import annotations

import pytest

from tableflow_assets.operate import two_formats
from tableflow_assets.operate.two_formats import differences
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.log import DeltaLog, commit_name
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, table_of


def log_of(pipeline: Pipeline) -> DeltaLog:
    root = delta_root(table_of(pipeline))
    return DeltaLog(store_at(root, pipeline.catalog.storage), pipeline.topic.name)


def test_what_only_one_format_has(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_formats, "PAUSE_SECONDS", 0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    for first in (0, 5):
        kafka_topic.send(PAYMENT, payments(5, first=first), partition=0)
        pipeline.catch_up()
    assert differences(tableflow.catalog, pipeline.topic) == ()

    log = log_of(pipeline)
    log.store.delete([commit_name(log.newest)])
    assert differences(tableflow.catalog, pipeline.topic) == (), "who finds it behind brings it up"

    log = log_of(pipeline)
    path = next(iter(log.state().files))
    log.append(log.newest + 1, [{"remove": {"path": path, "dataChange": True}}])
    kinds = {finding.kind for finding in differences(tableflow.catalog, pipeline.topic)}
    assert kinds >= {"log", "files"}


def test_a_topic_without_a_table_or_without_delta_has_none(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, formats=("iceberg",))
    assert differences(tableflow.catalog, pipeline.topic) == ()
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline.catch_up()
    assert differences(tableflow.catalog, pipeline.topic) == ()
