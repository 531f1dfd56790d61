"""Rows per window, as the asset's partitions show them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import pytest

from tableflow_assets.table.windows import rows_added, rows_in_all
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, table_of

# When records happened: around midnights, around full hours, and years apart.
FIRST = [
    datetime(2023, 12, 31, 23, 59, 59, 999000, UTC),
    datetime(2024, 1, 1, 0, 0, 0, 0, UTC),
    datetime(2024, 1, 1, 0, 59, 59, 999000, UTC),
    datetime(2024, 1, 1, 1, 0, 0, 0, UTC),
    datetime(1999, 5, 5, 5, 0, 0, 0, UTC),
]
LATE = [
    datetime(2024, 1, 2, 12, 30, 0, 0, UTC),
    datetime(2024, 1, 1, 0, 30, 0, 0, UTC),  # after all of those above, for the day before
]


def send_at(topic: KafkaTopic, moments: list[datetime]) -> None:
    for number, moment in enumerate(moments):
        timestamp = int(moment.timestamp() * 1000)
        topic.send(PAYMENT, payments(1, number), partition=number % 2, timestamp=timestamp)


def windows(spans: dict[str, int]) -> dict[datetime, int]:
    return {datetime.fromisoformat(start).replace(tzinfo=UTC): n for start, n in spans.items()}


@pytest.mark.parametrize(
    ("window", "first", "late", "in_all"),
    [
        (
            "day",
            {"2023-12-31": 1, "2024-01-01": 3, "1999-05-05": 1},
            {"2024-01-02": 1, "2024-01-01": 1},
            {"2023-12-31": 1, "2024-01-01": 4, "1999-05-05": 1, "2024-01-02": 1},
        ),
        (
            "hour",
            {
                "2023-12-31T23:00": 1,
                "2024-01-01T00:00": 2,
                "2024-01-01T01:00": 1,
                "1999-05-05T05:00": 1,
            },
            {"2024-01-02T12:00": 1, "2024-01-01T00:00": 1},
            {
                "2023-12-31T23:00": 1,
                "2024-01-01T00:00": 3,
                "2024-01-01T01:00": 1,
                "1999-05-05T05:00": 1,
                "2024-01-02T12:00": 1,
            },
        ),
    ],
)
def test_rows_are_counted_in_the_window_of_their_own_time_however_late_they_come(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    window: Literal["hour", "day"],
    first: dict[str, int],
    late: dict[str, int],
    in_all: dict[str, int],
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, window=window)
    send_at(kafka_topic, FIRST)
    first_commit = pipeline.catch_up().snapshots
    send_at(kafka_topic, LATE)
    late_commit = pipeline.catch_up().snapshots
    table = table_of(pipeline)
    assert rows_added(table, window, first_commit) == windows(first)
    assert rows_added(table, window, late_commit) == windows(late)
    assert rows_added(table, window, first_commit + late_commit) == windows(in_all)
    assert rows_in_all(table, window) == windows(in_all)
    assert rows_added(table, window, ()) == {}


# From the hundredth commit on, Iceberg merges the manifests of older commits into that of a new one.
def test_rows_of_older_commits_are_not_counted_when_their_manifests_were_merged(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    send_at(kafka_topic, FIRST)
    pipeline.catch_up()
    properties = {"commit.manifest.min-count-to-merge": "1"}  # Iceberg's default is 100
    with table_of(pipeline).transaction() as change:
        change.set_properties(properties)
    send_at(kafka_topic, LATE)
    late_commit = pipeline.catch_up().snapshots
    added = rows_added(table_of(pipeline), "day", late_commit)
    assert added == windows({"2024-01-02": 1, "2024-01-01": 1})
