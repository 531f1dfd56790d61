"""Steps through a real log: within their limits, and with keys in the order of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.steps import steps
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import entries_of, ids_of, pipeline_of, verified

NOON = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)


def send_at(topic: KafkaTopic, partition: int, timestamps: Iterable[int]) -> None:
    """``timestamps``: milliseconds after noon."""
    for timestamp in timestamps:
        topic.send_bytes([b"x"], partition=partition, timestamp=NOON + timestamp)


def send_sizes(topic: KafkaTopic, partition: int, sizes: Iterable[int]) -> None:
    for size in sizes:
        topic.send_bytes([b"x" * size], partition=partition)


def plan_of(tableflow: Tableflow, topic: KafkaTopic) -> Plan:
    identity = tableflow.log.identify(topic.name)
    ends = tableflow.log.end(identity)
    return Plan(identity, tuple(OffsetRange(p, 0, end) for p, end in sorted(ends.items())))


def steps_of(tableflow: Tableflow, topic: KafkaTopic, **options: object) -> list[dict[int, range]]:
    """The offsets of each step by partition; together they are the whole log, in its order."""
    plan = plan_of(tableflow, topic)
    settings = Topic.model_validate({"name": topic.name, **options})
    cut = list(steps(tableflow.log, plan, settings))
    for before, after in pairwise(cut):
        assert [r.end for r in before.ranges] == [r.start for r in after.ranges]
    assert [r.start for r in cut[0].ranges] == [r.start for r in plan.ranges]
    assert [r.end for r in cut[-1].ranges] == [r.end for r in plan.ranges]
    return [{r.partition: range(r.start, r.end) for r in step.ranges} for step in cut]


def sizes_of(cut: list[dict[int, range]]) -> list[int]:
    return [sum(map(len, step.values())) for step in cut]


# --- with keys: by time -----------------------------------------------------------------------


@pytest.mark.parametrize("max_records", [1, 2, 3, 7])
def test_no_step_has_a_record_that_is_older_than_one_of_the_step_before(
    tableflow: Tableflow, kafka_topic: KafkaTopic, max_records: int
) -> None:
    stamps = {0: [0, 10, 20, 500, 600, 3_600_000], 1: [5, 15, 16, 17, 550, 86_400_000]}
    for partition, timestamps in stamps.items():
        send_at(kafka_topic, partition, timestamps)
    cut = steps_of(tableflow, kafka_topic, mode="upsert", max_records=max_records)
    times = [
        [stamps[p][offset] for p, offsets in step.items() for offset in offsets] for step in cut
    ]
    assert all(0 < size <= max_records for size in sizes_of(cut))
    assert all(max(before) < min(after) for before, after in pairwise(times))


def test_records_of_one_moment_are_taken_in_shares_before_any_later_one(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, 0, [0] * 8)
    send_at(kafka_topic, 1, [0] * 2 + [60_000] * 10)
    cut = steps_of(tableflow, kafka_topic, mode="upsert", max_records=4)
    assert sizes_of(cut) == [4, 4, 2, 4, 4, 2]
    assert [step[1].stop for step in cut[:3]] == [1, 2, 2]


def test_records_that_all_have_the_same_timestamp_are_taken_step_by_step(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, 0, [7] * 5)
    assert sizes_of(steps_of(tableflow, kafka_topic, mode="upsert", max_records=2)) == [2, 2, 1]


def test_a_clock_that_goes_backwards_stops_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, 0, [900, 100, 800, 200, 700, 300])
    send_at(kafka_topic, 1, [50, 950, 0])
    cut = steps_of(tableflow, kafka_topic, mode="upsert", max_records=3)
    assert all(0 < size <= 3 for size in sizes_of(cut))
    assert cut[0] == {0: range(0), 1: range(1)}  # the rest is behind a record of 900 or 950


def test_records_from_long_ago_are_cut_by_time_as_well(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_at(kafka_topic, 0, [1 - NOON, 3 - NOON])
    send_at(kafka_topic, 1, [2 - NOON, 4 - NOON])
    cut = steps_of(tableflow, kafka_topic, mode="upsert", max_records=1)
    assert [next(p for p, offsets in step.items() if offsets) for step in cut] == [0, 1, 0, 1]


# --- by size ----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_large_records_make_steps_of_few(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    send_sizes(kafka_topic, 0, [50_000] * 20)
    send_sizes(kafka_topic, 1, [50_000] * 20)
    sizes = sizes_of(steps_of(tableflow, kafka_topic, mode=mode, max_bytes=500_000))
    assert max(sizes) <= 10
    assert len(sizes) <= 6  # and not of fewer than needed


def test_large_records_behind_small_ones_are_noticed(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    records = [10] * 300 + [100_000] * 20 + [10] * 30
    send_sizes(kafka_topic, 0, records)
    cut = steps_of(tableflow, kafka_topic, max_bytes=1_000_000)
    brought = [sum(records[step[0].start : step[0].stop]) for step in cut]
    assert max(brought) <= 1_100_000
    assert len(cut) <= 10


def test_a_record_larger_than_the_limit_is_a_step_of_its_own(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send_sizes(kafka_topic, 0, [2000] * 4)
    assert sizes_of(steps_of(tableflow, kafka_topic, max_bytes=100)) == [1, 1, 1, 1]


def test_a_limit_of_bytes_makes_several_commits(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    noted = {**PAYMENT, "fields": [*PAYMENT["fields"], {"name": "note", "type": "string"}]}
    schema_id = kafka_topic.register(noted)
    values = [framed(schema_id, noted, payment | {"note": "x" * 10_000}) for payment in payments(9)]
    kafka_topic.send_bytes(values, partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, max_bytes=40_000)
    assert len(pipeline.catch_up().snapshots) == 3
    assert [entry.end[0] for entry in entries_of(pipeline)] == [0, 3, 6, 9]
    assert ids_of(pipeline) == list(range(9))
    verified(pipeline)
