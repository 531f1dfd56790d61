"""`tableflow mirror` and `tableflow repair`: what they print, for people and machines, and how they exit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta import lifecycle as upkeep
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import head_of, pipeline_of, table_of
from tableflow_assets_tests.table.delta.own_tables import OwnTable

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def pipeline(tableflow: Tableflow, landed: KafkaTopic) -> Pipeline:
    return pipeline_of(tableflow, landed)


@pytest.fixture
def store(pipeline: Pipeline) -> Store:
    return store_at(delta_root(table_of(pipeline)), pipeline.catalog.storage)


def version_of(pipeline: Pipeline) -> int:
    return upkeep.mirror_status(pipeline.catalog, table_of(pipeline)).version


def test_a_log_that_is_behind_is_brought_up(
    command: Command, pipeline: Pipeline, store: Store
) -> None:
    store.delete([f"_delta_log/{version_of(pipeline):020d}.json"])  # as if it never came to it
    name, before = pipeline.topic.name, version_of(pipeline)
    (done,) = command("mirror", name, "--json").json
    assert done == {
        "topic": name,
        "behind_before": 1,
        "versions_written": 1,
        "version": before + 1,
        "snapshot": str(head_of(pipeline)),
        "problem": "",
    }
    answer = command("mirror", name)
    assert answer.code == 0
    assert str(head_of(pipeline)) in answer.out


def test_a_check_says_that_both_are_the_same(command: Command, pipeline: Pipeline) -> None:
    name = pipeline.topic.name
    (compared,) = command("mirror", name, "--check", "--json").json
    assert (compared["ok"], compared["findings"], compared["rows"]) == (True, [], 5)
    assert compared["rows_compared"] is None
    answer = command("mirror", name, name, "--rows")
    assert answer.code == 0
    assert "Iceberg against Delta" in answer.out


def test_what_a_check_finds_a_repair_mends(
    command: Command, pipeline: Pipeline, store: Store
) -> None:
    name, theirs = pipeline.topic.name, version_of(pipeline) + 1
    store.put(f"_delta_log/{theirs:020d}.json", b'{"commitInfo":{"operation":"theirs"}}')
    for arguments in (("mirror", name), ("mirror", name, "--check"), ("mirror", name, "--rows")):
        answer = command(*arguments)
        assert answer.code == 1
        assert f"Version {theirs} of the Delta log" in answer.out
    (found,) = command("mirror", name, "--check", "--json").json
    assert [one["kind"] for one in found["findings"]] == ["log"]
    answer = command("repair", name, "--dry-run")
    assert (answer.code, "Would do: Write the table's state" in answer.out) == (0, True)
    assert command("mirror", name, "--check").code == 1
    repaired = command("repair", name, "--json")
    assert (repaired.code, len(repaired.json["steps"]), repaired.json["ok"]) == (0, 1, True)
    assert command("mirror", name, "--check").code == 0
    answer = command("repair", name)
    assert (answer.code, "nothing is wrong" in answer.out) == (0, True)


def test_a_topic_without_a_table_is_named(command: Command, kafka_topic: KafkaTopic) -> None:
    for arguments in (("mirror", kafka_topic.name), ("repair", kafka_topic.name)):
        answer = command(*arguments)
        assert answer.code == 1
        assert "has no table" in answer.out + answer.err
    assert command("mirror").code == 2


def test_a_table_that_is_not_kept_as_delta_is_named(
    command: Command, tableflow: Tableflow, tmp_path: Path
) -> None:
    own = OwnTable(tableflow, tmp_path, formats=("iceberg",))
    answer = command("mirror", own.topic.name)
    assert (answer.code, "is not kept as Delta" in answer.err) == (1, True)


def test_a_window_that_is_none_is_refused(command: Command, pipeline: Pipeline) -> None:
    answer = command("repair", pipeline.topic.name, "--window", "yesterday")
    assert (answer.code, "is not a window" in answer.err) == (1, True)
    answer = command("repair", pipeline.topic.name, "--until", "2024-01-01")
    assert (answer.code, "--until needs --window" in answer.err) == (2, True)
