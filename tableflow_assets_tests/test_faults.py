"""What can happen to a topic or its table: named, with the way out, and nothing lost or twice.

Each test breaks one topic in one way. Its rows stay as they were, another topic goes on meanwhile, and
after the command that the error names the topic goes on too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from click.testing import CliRunner

from tableflow_assets import cli
from tableflow_assets.base.errors import (
    AnotherCluster,
    LedgerError,
    ServerUnreachable,
    Suspended,
)
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.operate.status import TopicStatus, status
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.table.ledger import PROPERTY, Entry, read_ledger
from tableflow_assets.table.suspension import suspension_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.catalog_door import spark_catalog
from tableflow_assets_tests.support.failing_store import failing_store
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    entries_of,
    head_of,
    ids_of,
    pipeline_of,
    table_of,
    verified,
)


class Bystander:
    """Another topic, to which nothing happens."""

    def __init__(self, tableflow: Tableflow, topic: KafkaTopic) -> None:
        self._topic = topic
        self._pipeline = pipeline_of(tableflow, topic)
        self._sent = 0

    def goes_on(self) -> None:
        self._topic.send(PAYMENT, payments(2, first=self._sent))
        self._sent += 2
        assert self._pipeline.catch_up().rows == 2
        verified(self._pipeline)


@pytest.fixture
def bystander(tableflow: Tableflow, session_settings: Settings) -> Bystander:
    kafka = connections.kafka_address(session_settings)
    registry = connections.registry_address(session_settings)
    return Bystander(tableflow, KafkaTopic(kafka, registry, f"test-{uuid4().hex[:12]}"))


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Three rows, ids 0 to 2, all from partition 0; the log has no more."""
    kafka_topic.send(PAYMENT, payments(3), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


@pytest.fixture(autouse=True)
def _commands_on_the_stack(
    monkeypatch: pytest.MonkeyPatch, session_settings: Settings, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # no settings file
    monkeypatch.setenv("TABLEFLOW_STATE", str(session_settings.state_dir))


def command(line: str) -> Any:
    """Run a command exactly as it is printed."""
    program, *arguments = line.split()
    assert program == "tableflow"
    return CliRunner().invoke(cli.tableflow, arguments)


def status_of(pipeline: Pipeline) -> TopicStatus:
    return status(pipeline.log, pipeline.catalog, pipeline.topic, pipeline.state_dir)


def assert_suspended(pipeline: Pipeline, why: str, resolve: str) -> None:
    """The path refuses to go on, says so on the table, and has not touched the rows."""
    ids, head = ids_of(pipeline), head_of(pipeline)
    resolve = f"tableflow {resolve.replace('TOPIC', pipeline.topic.name)}"
    for _ in range(2):  # the second time without looking at the log
        with pytest.raises(Suspended, match=why) as caught:
            pipeline.catch_up()
        assert resolve in caught.value.next_step
    suspension = suspension_of(table_of(pipeline), pipeline.topic)
    assert suspension is not None
    assert suspension.resolve == resolve
    shown = status_of(pipeline)
    assert (shown.state, shown.reason) == ("suspended", suspension.reason)
    assert (shown.since, shown.resolve) == (suspension.since, resolve)
    assert (ids_of(pipeline), head_of(pipeline)) == (ids, head)
    assert branches_of(pipeline) == []


def resolve(pipeline: Pipeline, *flags: str) -> None:
    """By the very command that the suspension names."""
    found = suspension_of(table_of(pipeline), pipeline.topic)
    assert found is not None
    done = command(" ".join([found.resolve, *flags]))
    assert done.exit_code == 0, (done.output, done.exception)
    assert suspension_of(table_of(pipeline), pipeline.topic) is None


def assert_goes_on(pipeline: Pipeline, topic: KafkaTopic, first: int = 100) -> None:
    """New records land, and the whole is the log, exactly once."""
    pipeline.catch_up()
    topic.send(PAYMENT, payments(2, first), partition=0)
    assert pipeline.catch_up().rows == 2
    assert status_of(pipeline).state == "current"
    verified(pipeline)


def add_entry(pipeline: Pipeline, entry: Entry) -> None:
    """A snapshot that adds no rows and says this of the log."""
    table = table_of(pipeline)
    nothing = pa.Table.from_batches([], schema=table.schema().as_arrow())
    table.append(nothing, snapshot_properties={PROPERTY: entry.to_property()})


# --- the log ----------------------------------------------------------------------------------


def test_offsets_that_expired_before_they_were_read(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.send(PAYMENT, payments(6, first=3), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=7)
    assert_suspended(pipeline, "4 offsets expired", "resume TOPIC --accept-loss")
    assert status_of(pipeline).lag == 6
    bystander.goes_on()

    still = command(f"tableflow resume {kafka_topic.name}")
    assert isinstance(still.exception, Suspended)
    assert "The cause is still there" in still.exception.problem
    assert "--accept-loss" in still.exception.next_step

    resolve(pipeline)
    assert_goes_on(pipeline, kafka_topic)
    assert ids_of(pipeline) == [0, 1, 2, 7, 8, 100, 101]
    assert entries_of(pipeline)[-1].lost == ((0, 3, 7),)  # for good


def test_a_topic_that_was_deleted_and_created_again(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(5, first=50), partition=0)
    assert_suspended(pipeline, "deleted and created again", "rebase TOPIC")
    bystander.goes_on()
    resolve(pipeline, "--yes")
    assert ids_of(pipeline) == [0, 1, 2], "the rows stay"
    pipeline.catch_up()
    assert ids_of(pipeline) == [0, 1, 2, *range(50, 55)]
    assert_goes_on(pipeline, kafka_topic)


def test_a_topic_that_is_created_again_while_it_is_read(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=0)
    planned, head = pipeline.plan(), head_of(pipeline)
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(5, first=50), partition=0)
    with pytest.raises(Suspended, match="deleted and created again"):
        pipeline.materialize(planned)
    assert (head_of(pipeline), ids_of(pipeline)) == (head, [0, 1, 2])
    assert branches_of(pipeline) == []
    assert_suspended(pipeline, "deleted and created again", "rebase TOPIC")
    bystander.goes_on()
    assert command(f"tableflow rebuild {kafka_topic.name} --lose-rows --yes").exit_code == 0
    assert ids_of(pipeline) == list(range(50, 55))
    assert_goes_on(pipeline, kafka_topic)


def test_another_cluster_under_the_same_address(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    ours = read_ledger(table_of(pipeline)).entry
    add_entry(pipeline, replace(ours, cluster_id="the-cluster-of-yesterday"))
    before = table_of(pipeline).metadata_location
    with pytest.raises(AnotherCluster, match="Kafka cluster the-cluster-of-yesterday"):
        pipeline.catch_up()
    # A fault of whoever asks, not of the table: nothing is written onto it.
    assert table_of(pipeline).metadata_location == before
    bystander.goes_on()
    rebuild(pipeline, from_another_cluster=True, lose_rows=True)
    assert ids_of(pipeline) == [0, 1, 2]
    assert_goes_on(pipeline, kafka_topic)


def test_a_log_that_was_truncated_below_what_the_table_has_read(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    ours = read_ledger(table_of(pipeline)).entry
    add_entry(pipeline, replace(ours, start=ours.end, end=ours.end | {0: 9}))
    assert_suspended(pipeline, "truncated or replaced", "rebuild TOPIC")
    assert status_of(pipeline).lag == 0
    bystander.goes_on()
    resolve(pipeline)
    assert ids_of(pipeline) == [0, 1, 2]
    assert_goes_on(pipeline, kafka_topic)


def test_partitions_that_are_added_are_no_fault(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.add_partitions(4)
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=3)
    bystander.goes_on()
    assert pipeline.catch_up().rows == 2
    assert_goes_on(pipeline, kafka_topic)
    assert [result.rows for result in verified(pipeline)] == [5, 0, 0, 2]


def test_a_clock_that_goes_backwards_is_no_fault(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    day = 24 * 3600 * 1000
    now = int(time.time() * 1000)
    for number, days_ago in enumerate([0, 1, 400, 2]):
        kafka_topic.send(
            PAYMENT, payments(1, first=3 + number), partition=0, timestamp=now - days_ago * day
        )
    bystander.goes_on()
    assert pipeline.catch_up().rows == 4
    assert ids_of(pipeline) == list(range(7))
    assert_goes_on(pipeline, kafka_topic)


# --- the schema and the records ---------------------------------------------------------------


def test_a_schema_that_does_not_fit_the_table(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "amount", "type": "string"}]
    kafka_topic.accept_any_schema()
    kafka_topic.register({"type": "record", "name": "Payment", "fields": fields})
    assert_suspended(pipeline, "does not fit the table", "resume TOPIC")
    bystander.goes_on()

    still = command(f"tableflow resume {kafka_topic.name}")
    assert isinstance(still.exception, Suspended)
    assert_suspended(pipeline, "does not fit the table", "resume TOPIC")

    note = {"name": "note", "type": ["null", "string"], "default": None}
    kafka_topic.register(PAYMENT | {"fields": [*PAYMENT["fields"], note]})
    resolve(pipeline)
    assert_goes_on(pipeline, kafka_topic)


def test_records_that_cannot_be_decoded_where_the_settings_say_suspend(
    tableflow: Tableflow, pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.send(PAYMENT, payments(1, first=3), partition=0)
    kafka_topic.send_bytes([b"no avro at all"], partition=0)
    strict = pipeline_of(tableflow, kafka_topic, bad_records="suspend")
    assert_suspended(strict, "1 records of .* cannot be decoded", "resume TOPIC")
    bystander.goes_on()
    resolve(pipeline)
    assert pipeline.catch_up().dead_letters == 1
    assert_goes_on(pipeline, kafka_topic)


# --- the table --------------------------------------------------------------------------------


def test_a_table_that_somebody_else_wrote_to(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    table = table_of(pipeline)
    table.append(table.scan().to_arrow().slice(0, 1))
    assert_suspended(pipeline, "not written by Tableflow Assets", "rebuild TOPIC")
    bystander.goes_on()
    resolve(pipeline)
    assert ids_of(pipeline) == [0, 1, 2]
    assert_goes_on(pipeline, kafka_topic)


def test_a_table_that_somebody_else_wrote_to_and_that_was_rolled_back_then(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    ours = head_of(pipeline)
    table_of(pipeline).delete("id = 0")
    assert_suspended(pipeline, "not written by Tableflow Assets", "rebuild TOPIC")
    table_of(pipeline).manage_snapshots().rollback_to_snapshot(ours).commit()
    resumed = command(f"tableflow resume {kafka_topic.name}")
    assert resumed.exit_code == 0, resumed.output
    assert_goes_on(pipeline, kafka_topic)
    assert ids_of(pipeline) == [0, 1, 2, 100, 101]


def test_a_table_that_was_rolled_back_is_no_fault(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    before = head_of(pipeline)
    kafka_topic.send(PAYMENT, payments(3, first=3), partition=0)
    pipeline.catch_up()
    table_of(pipeline).manage_snapshots().rollback_to_snapshot(before).commit()
    assert ids_of(pipeline) == [0, 1, 2]
    bystander.goes_on()
    assert pipeline.catch_up().rows == 3  # the ledger went back with the rows
    assert ids_of(pipeline) == list(range(6))
    assert_goes_on(pipeline, kafka_topic)


def test_a_table_that_was_dropped(
    pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    pipeline.catalog.iceberg.drop_table(pipeline.catalog.identifier(pipeline.topic.table))
    for _ in range(2):
        with pytest.raises(LedgerError, match="is gone from the catalog") as caught:
            pipeline.catch_up()
        assert f"`tableflow rebuild {kafka_topic.name}`" in caught.value.next_step
    assert pipeline.catalog.find(pipeline.topic.table) is None
    shown = status_of(pipeline)
    assert shown.state == "error"
    assert f"tableflow rebuild {kafka_topic.name}" in shown.reason
    bystander.goes_on()

    resumed = command(f"tableflow resume {kafka_topic.name}")
    assert isinstance(resumed.exception, LedgerError)
    rebuilt = command(f"tableflow rebuild {kafka_topic.name}")
    assert rebuilt.exit_code == 0, (rebuilt.output, rebuilt.exception)
    assert ids_of(pipeline) == [0, 1, 2]
    assert_goes_on(pipeline, kafka_topic)


# --- the object store -------------------------------------------------------------------------


@pytest.fixture(params=["data file", "manifest", "manifest list"])
def refused_file(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def is_refused(kind: str, path: str) -> bool:
    name = path.split("?", maxsplit=1)[0].rpartition("/")[2]
    return {
        "data file": name.endswith(".parquet"),
        "manifest": name.endswith(".avro") and not name.startswith("snap-"),
        "manifest list": name.startswith("snap-"),
    }[kind]


@pytest.fixture
def on_failing_store(
    tableflow: Tableflow, pipeline: Pipeline, refused_file: str
) -> Iterator[Pipeline]:
    """The same topic and table; but Spark reaches the store through a door that refuses a file."""
    store = str(tableflow.catalog.storage.endpoint)
    with failing_store(store, lambda path: is_refused(refused_file, path)) as door:
        yield replace(pipeline, spark_catalog=spark_catalog(tableflow, endpoint=door))


def test_an_object_store_that_fails_half_way_through_a_commit(
    on_failing_store: Pipeline, pipeline: Pipeline, kafka_topic: KafkaTopic, bystander: Bystander
) -> None:
    kafka_topic.send(PAYMENT, payments(2, first=3), partition=0)
    head = head_of(pipeline)
    with pytest.raises(ServerUnreachable, match="503"):
        on_failing_store.catch_up()
    assert (head_of(pipeline), ids_of(pipeline)) == (head, [0, 1, 2])
    assert branches_of(pipeline) == []
    verified(pipeline)
    assert status_of(pipeline).state == "behind"  # not suspended: a store comes back by itself
    bystander.goes_on()
    assert pipeline.catch_up().rows == 2
    assert ids_of(pipeline) == list(range(5))
    assert_goes_on(pipeline, kafka_topic)
