"""`tableflow ledger`: which offsets a table has read, and when."""

from __future__ import annotations

import pytest

from tableflow_assets.base.errors import DataLoss
from tableflow_assets.operate.forget import forget
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.suspension import suspend
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, pipeline_of

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two commits: three records of partition 0, then two of partition 1."""
    pipeline = pipeline_of(tableflow, kafka_topic)
    kafka_topic.send(PAYMENT, payments(3), partition=0, key="somebody")
    pipeline.catch_up(run_id="first")
    kafka_topic.send(PAYMENT, payments(2), partition=1)
    pipeline.catch_up(run_id="second")
    return pipeline


def test_the_head_and_all_entries_newest_first(command: Command, pipeline: Pipeline) -> None:
    name = pipeline.topic.name
    answer = command("ledger", name, "--json")
    assert answer.code == 0
    found = answer.json
    identity = pipeline.log.identify(name)
    assert (found["cluster_id"], found["topic_id"]) == (identity.cluster_id, identity.topic_id)
    assert (found["mode"], found["lineage"], found["lost"]) == ("append", "", [])
    assert (found["forgotten"], found["suspended"]) == (0, None)
    assert found["origin"] == {"0": 0, "1": 0}
    assert found["committed"] == {"0": 3, "1": 2}
    second, first, origin = found["entries"]
    assert second["snapshot_id"] == head_of(pipeline)
    assert [entry["kind"] for entry in (second, first, origin)] == ["records", "records", "origin"]
    assert [entry["run_id"] for entry in (second, first, origin)] == ["second", "first", ""]
    assert [entry["records"] for entry in (second, first, origin)] == [2, 3, 0]
    assert [entry["rows_added"] for entry in (second, first, origin)] == [2, 3, 0]
    assert second["partitions"] == {"0": {"start": 3, "end": 3}, "1": {"start": 0, "end": 2}}


def test_for_people_with_a_limit(command: Command, pipeline: Pipeline) -> None:
    suspend(pipeline.catalog, pipeline.topic, DataLoss("too late"))
    answer = command("ledger", pipeline.topic.name, "--limit", "1")
    assert answer.code == 0
    assert "committed 0:3 1:2" in answer.out
    assert "suspended too late" in answer.out
    assert "0:3→3 1:0→2" in answer.out
    assert "0:0→3" not in answer.out
    assert "2 older entries are not shown: --limit 3" in answer.out


def test_a_forgotten_key_is_counted_and_not_named(command: Command, pipeline: Pipeline) -> None:
    forget(pipeline, "somebody")
    answer = command("ledger", pipeline.topic.name, "--json")
    assert answer.json["forgotten"] == 1
    (entry,) = answer.json["entries"]  # the older snapshots went with the key
    assert (entry["kind"], entry["records"]) == ("forget", 0)
    assert "somebody" not in answer.out


def test_a_topic_without_a_table_is_an_error(command: Command, kafka_topic: KafkaTopic) -> None:
    answer = command("ledger", kafka_topic.name)
    assert (answer.code, answer.out) == (1, "")
    assert "has no table yet" in answer.err
