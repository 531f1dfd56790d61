"""A topic that cannot go on says so on its table, and nobody touches the table before it is resolved."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from pyiceberg.exceptions import CommitFailedException

from tableflow_assets.base.errors import (
    CommitConflict,
    DataLoss,
    IncompatibleSchema,
    LedgerError,
    SchemaNotFound,
    ServerUnreachable,
    Suspended,
    TableflowError,
    TableGone,
    TopicNotFound,
    TopicRecreated,
    UndecodableRecords,
    UnsupportedSchema,
)
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table import known_tables, suspension
from tableflow_assets.table.suspension import (
    PROPERTY,
    clear,
    find_suspension,
    suspend,
    suspending,
    suspension_of,
)
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.flaky_catalog import flaky
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of, verified


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two rows in the table."""
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


def meet(pipeline: Pipeline, error: Exception) -> None:
    """The path of this topic runs into the error."""
    with suspending(pipeline.catalog, pipeline.topic):
        raise error


def property_of(pipeline: Pipeline) -> dict[str, str]:
    return dict(json.loads(table_of(pipeline).properties[PROPERTY]))


# --- what suspends ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "command", "advice"),
    [
        (DataLoss, "tableflow resume TOPIC --accept-loss", "records them in the ledger"),
        (LedgerError, "tableflow rebuild TOPIC", "roll the table back.*`tableflow resume TOPIC`"),
        (TopicRecreated, "tableflow rebase TOPIC", "keeps the rows.*rebuild TOPIC --lose-rows"),
        (IncompatibleSchema, "tableflow resume TOPIC", "Register a version that only adds"),
        (UnsupportedSchema, "tableflow resume TOPIC", "Register a version that can become"),
        (UndecodableRecords, "tableflow resume TOPIC", "Set `bad_records: dead_letter`"),
    ],
)
def test_what_no_later_run_can_mend_is_written_on_the_table_with_the_command_that_resolves_it(
    pipeline: Pipeline, kind: type[TableflowError], command: str, advice: str
) -> None:
    name, head = pipeline.topic.name, head_of(pipeline)
    with pytest.raises(
        Suspended, match=f"{name}.* is suspended since .*: what went wrong"
    ) as caught:
        meet(pipeline, kind("what went wrong", "what to do"))
    assert isinstance(caught.value.__cause__, kind)
    document = property_of(pipeline)
    since = datetime.fromisoformat(document.pop("since"))
    assert timedelta(minutes=-5) < since - datetime.now(UTC) <= timedelta()
    resolve = command.replace("TOPIC", name)
    assert document == {"reason": "what went wrong", "error": kind.__name__, "resolve": resolve}
    assert f"`{resolve}`" in caught.value.next_step
    assert re.search(advice.replace("TOPIC", name), caught.value.next_step)
    assert head_of(pipeline) == head
    assert ids_of(pipeline) == [0, 1]


@pytest.mark.parametrize(
    "error",
    [
        CommitConflict("another writer"),
        ServerUnreachable("Kafka", "there:9092", "no answer"),
        TopicNotFound("no such topic"),
        SchemaNotFound("no subject"),
        KeyError("a mistake of ours"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_may_pass_by_itself_does_not_suspend(pipeline: Pipeline, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        meet(pipeline, error)
    assert caught.value is error
    assert PROPERTY not in table_of(pipeline).properties


def test_without_a_table_the_error_goes_on_as_it_is(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    error = UnsupportedSchema("no table can be made of it")
    with pytest.raises(UnsupportedSchema) as caught:
        meet(pipeline, error)
    assert caught.value is error
    assert tableflow.catalog.find(pipeline.topic.table) is None


def test_a_suspension_that_cannot_be_written_does_not_hide_the_error(pipeline: Pipeline) -> None:
    error = DataLoss("offsets expired")
    broken = flaky(pipeline.catalog, commits_first=False)
    table = table_of(pipeline)
    table.catalog = broken.iceberg
    broken.find = lambda _: table  # type: ignore[method-assign]
    with pytest.raises(DataLoss) as caught, suspending(broken, pipeline.topic):
        raise error
    assert caught.value is error
    assert PROPERTY not in table_of(pipeline).properties


def test_a_table_that_was_out_of_sight_for_a_moment_is_not_suspended(pipeline: Pipeline) -> None:
    with pytest.raises(TableGone):
        meet(pipeline, TableGone("the catalog has no such table"))
    assert PROPERTY not in table_of(pipeline).properties
    assert pipeline.catch_up().rows == 0


# --- while it lasts ---------------------------------------------------------------------------


def test_a_suspended_topic_is_neither_planned_nor_materialized(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)
    plan = pipeline.plan()
    with pytest.raises(Suspended):
        meet(pipeline, DataLoss("5 offsets expired"))
    metadata = table_of(pipeline).metadata_location
    for attempt in (pipeline.plan, lambda: pipeline.materialize(plan)):
        with pytest.raises(Suspended, match=r"since 20.*: 5 offsets expired") as caught:
            attempt()
        assert "--accept-loss" in caught.value.next_step
    assert table_of(pipeline).metadata_location == metadata  # nobody has touched it
    assert ids_of(pipeline) == [0, 1]


def test_the_first_reason_and_its_moment_stay(pipeline: Pipeline) -> None:
    first = suspend(pipeline.catalog, pipeline.topic, DataLoss("the first"))
    second = suspend(pipeline.catalog, pipeline.topic, LedgerError("the second"))
    assert first == second == suspension_of(table_of(pipeline), pipeline.topic)
    assert second is not None
    assert second.reason == "the first"


def test_a_property_that_somebody_set_by_hand_suspends_too(pipeline: Pipeline) -> None:
    with table_of(pipeline).transaction() as transaction:
        transaction.set_properties({PROPERTY: "hands off until Monday"})
    with pytest.raises(Suspended, match="is suspended: hands off until Monday") as caught:
        pipeline.plan()
    assert f"`tableflow resume {pipeline.topic.name}` ends it" in caught.value.next_step


def test_clearing_ends_it_and_tells_what_it_was(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    suspend(pipeline.catalog, pipeline.topic, DataLoss("expired"))
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)
    was = clear(pipeline.catalog, pipeline.topic)
    assert was is not None
    assert (was.reason, was.error) == ("expired", "DataLoss")
    assert clear(pipeline.catalog, pipeline.topic) is None
    assert pipeline.catch_up().rows == 1
    verified(pipeline)


def test_clearing_without_a_table_finds_nothing_to_clear(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    assert clear(tableflow.catalog, pipeline.topic) is None


# --- beside other commits ---------------------------------------------------------------------


def test_a_suspension_between_plan_and_commit_does_not_disturb_the_writer(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    """The property belongs to no snapshot: a writer's condition on the snapshot still holds."""
    kafka_topic.send(PAYMENT, payments(40, first=2), partition=0)
    plan = pipeline.plan()
    with _toggling(pipeline.catalog, pipeline) as toggled:
        committed = pipeline.materialize(plan)
    assert len(toggled) > 0
    assert committed.rows == 40
    verified(pipeline)


@contextmanager
def _toggling(catalog: RestCatalog, pipeline: Pipeline) -> Iterator[list[int]]:
    """Somebody changes another property of the table, all the time."""
    over, toggled = threading.Event(), []

    def toggle() -> None:
        table = table_of(pipeline)
        while not over.wait(0.05):
            try:
                with table.transaction() as transaction:
                    transaction.set_properties({f"{PROPERTY}.not": str(len(toggled))})
                toggled.append(1)
            except CommitFailedException:
                catalog.ask(table.refresh)

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield toggled
    finally:
        over.set()
        thread.join()


def test_a_suspension_is_written_though_other_commits_come_between(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(pipeline)
    refusals = iter([CommitFailedException("somebody was faster")] * 3)
    commit = table._do_commit

    def refused_three_times(**properties: object) -> None:
        for refusal in refusals:
            raise refusal
        commit(**properties)

    monkeypatch.setattr(table, "_do_commit", refused_three_times)
    monkeypatch.setattr(pipeline.catalog, "find", lambda _: table)
    recorded_suspension = suspend(pipeline.catalog, pipeline.topic, DataLoss("expired"))
    monkeypatch.undo()
    assert recorded_suspension == suspension_of(table_of(pipeline), pipeline.topic)


def test_a_table_that_never_stops_changing_is_a_conflict(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of(pipeline)

    def refused(**_: object) -> None:
        raise CommitFailedException("somebody was faster")

    monkeypatch.setattr(suspension, "ATTEMPTS", 2)
    monkeypatch.setattr(table, "_do_commit", refused)
    monkeypatch.setattr(pipeline.catalog, "find", lambda _: table)
    with pytest.raises(CommitConflict, match=pipeline.topic.table):
        suspend(pipeline.catalog, pipeline.topic, DataLoss("expired"))


# --- tables that vanish -----------------------------------------------------------------------


def test_a_table_that_was_dropped_is_not_made_anew_quietly(
    pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    uuid = table_of(pipeline).metadata.table_uuid
    pipeline.catalog.iceberg.drop_table(pipeline.catalog.identifier(pipeline.topic.table))
    kafka_topic.send(PAYMENT, payments(1, first=2), partition=0)
    with pytest.raises(LedgerError, match=f"{pipeline.topic.table}.*{uuid}.* is gone") as caught:
        pipeline.catch_up()
    assert f"`tableflow rebuild {kafka_topic.name}`" in caught.value.next_step
    assert pipeline.catalog.find(pipeline.topic.table) is None
    current_suspension = find_suspension(pipeline.catalog, pipeline.topic, pipeline.state_dir)
    assert current_suspension is not None
    assert current_suspension.resolve == f"tableflow rebuild {kafka_topic.name}"

    known_tables.forget(pipeline.state_dir, pipeline.topic, pipeline.catalog.namespace)
    assert find_suspension(pipeline.catalog, pipeline.topic, pipeline.state_dir) is None
    assert pipeline.catch_up().rows == 3
    verified(pipeline)
