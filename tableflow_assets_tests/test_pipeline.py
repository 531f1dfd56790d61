"""The path, end to end, on the real stack."""

from __future__ import annotations

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.verify import verify
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.kafka_topics import PAYMENT, KafkaTopic


def pipeline_of(tableflow: Tableflow, topic: KafkaTopic) -> Pipeline:
    return tableflow.pipeline(tableflow.topic(topic.name))


def test_records_land_once_and_a_second_run_adds_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, [{"id": n, "amount": n / 2} for n in range(100)])
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert pipeline.catch_up().rows == 100
    assert pipeline.catch_up().rows == 0
    results = verify(tableflow.log, tableflow.catalog, kafka_topic.name, pipeline.topic.table)
    assert [result.ok for result in results] == [True, True]
    assert sum(result.rows for result in results) == 100
    newest = verify(
        tableflow.log,
        tableflow.catalog,
        kafka_topic.name,
        pipeline.topic.table,
        newest_commit_only=True,
    )
    assert sum(result.rows for result in newest) == 100
