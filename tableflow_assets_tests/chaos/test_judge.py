"""The judge sees what is missing or twice, and charges each difference once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.chaos.judge import NOTHING_WRONG, Findings, Judge
from tableflow_assets.chaos.topics import ChaosTopic, settings_for
from tableflow_assets.settings.settings import Settings
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import PartitionResult
from tableflow_assets_tests.defs.dagster_world import duplicate_rows
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, table_of

TOPIC = ChaosTopic("clicks", partitions=1)
GOOD = PartitionResult(
    topic="clicks",
    partition=0,
    start=0,
    committed=10,
    end=10,
    records=10,
    expected=10,
    rows=9,
    dead_letters=1,
    skipped=0,
    missing=0,
    duplicated=0,
    unexpected=0,
)
ENDS = {"clicks": {0: 10}}


class Verdicts:
    """In place of `verify`: says what it is told to say."""

    def __init__(self, *results: PartitionResult) -> None:
        self.results: Sequence[PartitionResult] = results

    def __call__(self, tableflow: Tableflow, topic: str, sample: int) -> Sequence[PartitionResult]:
        assert topic == TOPIC.name
        return self.results


@pytest.fixture
def verdicts() -> Verdicts:
    return Verdicts(GOOD)


@pytest.fixture
def judge(verdicts: Verdicts, tmp_path: Path) -> Judge:
    settings = settings_for((TOPIC,), Settings(state_dir=tmp_path))
    return Judge(settings, [TOPIC], verdicts, lambda _tableflow, _topic: 0)


def test_a_good_table(judge: Judge) -> None:
    assert judge.compare(ENDS) == NOTHING_WRONG
    assert judge.records == 10
    assert judge.dead_letters == {"clicks": 1}


def test_a_difference_is_charged_when_it_appears(judge: Judge, verdicts: Verdicts) -> None:
    assert judge.compare(ENDS).ok
    verdicts.results = [replace(GOOD, missing=1, duplicated=2)]
    assert judge.compare(ENDS) == Findings(missing=1, duplicated=2)
    assert judge.compare(ENDS).ok, "the same difference is not charged to the next fault too"
    verdicts.results = [replace(GOOD, missing=3, duplicated=2, unexpected=1)]
    assert judge.compare(ENDS) == Findings(missing=2, unexpected=1)


def test_wrong_values_and_a_broken_ledger_are_not_as_expected(
    judge: Judge, verdicts: Verdicts
) -> None:
    verdicts.results = [replace(GOOD, differing=2)]
    assert judge.compare(ENDS) == Findings(unexpected=2)
    verdicts.results = [replace(GOOD, differing=2, ledger_ok=False)]
    assert judge.compare(ENDS) == Findings(unexpected=1)


def test_formats_that_differ_are_charged_once_too(verdicts: Verdicts, tmp_path: Path) -> None:
    differing = [0, 2, 2]
    settings = settings_for((TOPIC,), Settings(state_dir=tmp_path))
    judge = Judge(settings, [TOPIC], verdicts, lambda _tableflow, _topic: differing.pop(0))
    assert judge.compare(ENDS).ok
    assert judge.compare(ENDS) == Findings(mirror=2)
    assert judge.compare(ENDS).ok


def test_a_table_that_stays_behind_misses_records(judge: Judge, verdicts: Verdicts) -> None:
    assert judge.compare({"clicks": {0: 12}}) == Findings(missing=2)
    verdicts.results = []
    assert judge.compare(ENDS) == Findings(missing=10), "there is no table at all"


def test_with_a_real_table(
    session_settings: Settings, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    topic = ChaosTopic(kafka_topic.name, partitions=2)
    judge = Judge(settings_for((topic,), session_settings), [topic])
    kafka_topic.send(PAYMENT, payments(5), partition=0)
    kafka_topic.send(PAYMENT, payments(5, first=5), partition=1)
    ends = judge.ends()
    assert judge.behind() == [topic.name]
    assert judge.compare(ends) == Findings(missing=10)

    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert judge.behind() == []
    assert judge.compare(ends, sample=10) == NOTHING_WRONG
    assert judge.records == 10

    assert duplicate_rows(table_of(pipeline), "id < 3") == 3
    # The entry stands there twice, too: of neither partition does the second begin where the first ends.
    assert judge.compare(ends) == Findings(duplicated=3, unexpected=2)
