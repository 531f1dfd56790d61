"""Records whose timestamps no calendar has: they land, and stop nobody."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from tableflow_assets.settings.blocks import Mode
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of, rows_of

pytestmark = pytest.mark.usefixtures("on_stack")

NOW_MS = int(time.time() * 1000)
NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)
EARLIEST, LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
WILD = {
    "before 1970": (-86_400_000, datetime(1969, 12, 31, tzinfo=UTC)),
    "the first day of .NET": (-62_135_596_800_000, EARLIEST),
    "the year 9999": (253_402_214_400_000, LATEST),
    "microseconds": (NOW_MS * 1000, LATEST),
    "nanoseconds": (NOW_MS * 1_000_000, LATEST),
    "the largest number": (2**63 - 1, LATEST),
}
SETTINGS = """
topics:
  {name}: {{mode: {mode}, key: string, retention: {retention}}}
"""


def written(topic: KafkaTopic) -> dict[int, datetime]:
    """Wild ones between ordinary ones; returns the moment that each payment should have."""
    topic.accept_any_timestamp()
    stamps = [(NOW_MS, NOW), *WILD.values(), (NOW_MS, NOW)]
    for number, (milliseconds, _) in enumerate(stamps):
        topic.send(
            PAYMENT, payments(1, number), partition=0, key=f"{number}", timestamp=milliseconds
        )
    topic.send(PAYMENT, payments(1, len(stamps)), partition=1, key="x", timestamp=NOW_MS)
    return dict(enumerate([*(moment for _, moment in stamps), NOW]))


def timestamps(tableflow: Tableflow, topic: KafkaTopic) -> dict[int, Any]:
    return {row["id"]: row["_kafka"]["timestamp"] for row in rows_of(pipeline_of(tableflow, topic))}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_wild_timestamps_land_and_every_command_goes_on(
    command: Command,
    config_file: Any,
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    mode: Mode,
) -> None:
    expected = written(kafka_topic)
    retention = "null" if mode == "upsert" else "36000 days"
    text = SETTINGS.format(name=kafka_topic.name, mode=mode, retention=retention)
    config = ("--config", config_file(text))

    for number in (100, 101):  # the second time over a table that has them already
        answer = command(*config, "materialize", kafka_topic.name)
        assert answer.code == 0, answer.err
        assert timestamps(tableflow, kafka_topic) == expected
        answer = command(*config, "verify", kafka_topic.name, "--sample", "99", "--json")
        assert answer.code == 0, answer.out
        assert sum(result["sampled"] for result in answer.json) == len(expected)
        kafka_topic.send(
            PAYMENT, payments(1, number), partition=0, key=f"{number}", timestamp=NOW_MS
        )
        expected[number] = NOW

    for arguments in (
        ("status", kafka_topic.name),
        ("status", kafka_topic.name, "--json"),
        ("maintenance", "status", kafka_topic.name),
        ("maintenance", "compact", kafka_topic.name, "--include-newest"),
        ("history", kafka_topic.name),
        ("ledger", kafka_topic.name),
        ("mirror", kafka_topic.name, "--check", "--rows"),
        ("query", f"FROM {pipeline_of(tableflow, kafka_topic).topic.table}"),
        *([("retention", kafka_topic.name)] if mode == "append" else []),
    ):
        answer = command(*config, *arguments)
        assert answer.code == 0, (arguments, answer.out, answer.err)
