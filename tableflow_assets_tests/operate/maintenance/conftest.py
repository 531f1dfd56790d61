"""Tables with many small files, made by as many small commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import pipeline_of

FIRST_DAY = datetime(2024, 1, 1, 12, tzinfo=UTC)


def at_day(day: int) -> int:
    """As Kafka's timestamp."""
    return int((FIRST_DAY + timedelta(days=day)).timestamp() * 1000)


def commit_days(pipeline: Pipeline, topic: KafkaTopic, commits: int, *days: int) -> None:
    """Each commit brings one record, and so one file, for each of the days."""
    schema_id = topic.register(PAYMENT)
    for number in range(commits):
        for day in days:
            (value,) = payments(1, first=100 * day + number)
            topic.send_bytes([framed(schema_id, PAYMENT, value)], timestamp=at_day(day))
        pipeline.catch_up()


def commit_keys(pipeline: Pipeline, topic: KafkaTopic, commits: int, keys: int = 4) -> None:
    """Each commit changes every key: all rows of the commit before it are dead then."""
    schema_id = topic.register(PAYMENT)
    for number in range(commits):
        for key, value in enumerate(payments(keys, first=100 * number)):
            content = framed(schema_id, PAYMENT, value)
            topic.send_bytes([content], key=f"key {key}".encode(), partition=0)
        pipeline.catch_up()


@pytest.fixture
def two_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small files are worth merging: commits are what takes time here."""
    monkeypatch.setattr("tableflow_assets.operate.maintenance.health.SMALL_FILES", 2)


@pytest.fixture
def keyed(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    return pipeline_of(tableflow, kafka_topic, mode="upsert", key_buckets=2)


@pytest.fixture
def by_day(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    return pipeline_of(tableflow, kafka_topic)
