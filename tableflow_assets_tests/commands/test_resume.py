"""`tableflow resume`: ends a suspension, or says why it cannot end yet."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable

import pytest

from tableflow_assets.base.errors import UndecodableRecords
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.suspension import suspend, suspension_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import head_of, ids_of, pipeline_of, table_of, verified

pytestmark = pytest.mark.usefixtures("on_stack")


@pytest.fixture
def pipeline(tableflow: Tableflow, kafka_topic: KafkaTopic) -> Pipeline:
    """Two rows, from partition 0."""
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    return pipeline


@pytest.fixture
def expired(pipeline: Pipeline, kafka_topic: KafkaTopic, command: Command) -> Pipeline:
    """Suspended: of partition 0 the offsets 2 to 6 are lost, of partition 1 the offset 0."""
    kafka_topic.send(PAYMENT, payments(6, first=2), partition=0)
    kafka_topic.send(PAYMENT, payments(3, first=20), partition=1)
    kafka_topic.delete_records_before(partition=0, offset=7)
    kafka_topic.delete_records_before(partition=1, offset=1)
    assert command("materialize", kafka_topic.name).code == 1
    assert is_suspended(pipeline)
    return pipeline


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def is_suspended(pipeline: Pipeline) -> bool:
    return suspension_of(table_of(pipeline), pipeline.topic) is not None


# ---- without a loss ----


def test_a_topic_that_is_not_suspended_stays_as_it_is(
    command: Command, pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    before = table_of(pipeline).metadata_location
    answer = command("resume", kafka_topic.name)
    assert (answer.code, answer.out.strip()) == (0, f"{kafka_topic.name} is not suspended.")
    answer = command("resume", kafka_topic.name, "--json")
    assert (answer.code, answer.json) == (0, {"topic": kafka_topic.name, "resumed": False})
    assert table_of(pipeline).metadata_location == before


def test_a_topic_without_a_table_is_not_suspended_and_gets_none(
    command: Command, tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    answer = command("resume", kafka_topic.name, "--json")
    assert (answer.code, answer.json["resumed"]) == (0, False)
    assert tableflow.catalog.find(tableflow.topic(kafka_topic.name).table) is None


def test_a_topic_whose_cause_is_gone_goes_on(
    command: Command, pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3, first=2), partition=0)
    suspend(pipeline.catalog, pipeline.topic, UndecodableRecords("3 records."))
    answer = command("resume", kafka_topic.name, "--json")
    assert answer.code == 0
    assert answer.json == {
        "topic": kafka_topic.name,
        "resumed": True,
        "reason": "3 records.",
        "lost": {},
        "to_read": 3,
    }
    assert not is_suspended(pipeline)
    assert pipeline.catch_up().rows == 3


def test_the_end_of_a_suspension_is_told_to_people(
    command: Command, pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    suspend(pipeline.catalog, pipeline.topic, UndecodableRecords("3 records."))
    answer = command("resume", kafka_topic.name)
    assert answer.code == 0
    assert f"{kafka_topic.name} goes on, with 0 offsets to read." in answer.out
    assert "The next run decodes the records again." in answer.out


def test_a_topic_whose_cause_is_still_there_is_suspended_again(
    command: Command, expired: Pipeline, kafka_topic: KafkaTopic
) -> None:
    answer = command("resume", kafka_topic.name)
    assert (answer.code, answer.out) == (1, "")
    assert "Error: The cause is still there." in answer.err
    assert f"Next step: `tableflow resume {kafka_topic.name} --accept-loss`" in answer.err
    assert is_suspended(expired)


def test_a_topic_that_the_settings_do_not_choose_is_an_error(
    command: Command, config_file: Callable[[str], str]
) -> None:
    answer = command("--config", config_file("topics: {orders: {}}\n"), "resume", "payments")
    assert (answer.code, answer.out) == (1, "")
    assert "No topic or pattern in the settings matches 'payments'." in answer.err


# ---- with a loss ----


def test_an_accepted_loss_is_told_recorded_and_passed_over(
    command: Command, expired: Pipeline, kafka_topic: KafkaTopic
) -> None:
    answer = command("resume", kafka_topic.name, "--accept-loss", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["lost"] == {"0": [2, 7], "1": [0, 1]}
    assert answer.json["to_read"] == 3
    assert not is_suspended(expired)
    assert read_ledger(table_of(expired)).entry.lost == ((0, 2, 7), (1, 0, 1))
    assert expired.catch_up().rows == 3
    assert ids_of(expired) == [0, 1, 7, 21, 22]
    verified(expired)


def test_a_terminal_is_asked_with_the_number_of_lost_offsets_of_each_partition(
    command: Command, expired: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = head_of(expired)
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    answer = command("resume", kafka_topic.name, "--accept-loss")
    assert answer.code == 130
    assert f"{kafka_topic.name} partition 0: 5 offsets, 2 to 6, are lost." in answer.err
    assert f"{kafka_topic.name} partition 1: 1 offsets, 0 to 0, are lost." in answer.err
    assert is_suspended(expired)
    assert head_of(expired) == head

    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    answer = command("resume", kafka_topic.name, "--accept-loss", "--json")
    assert answer.code == 0
    assert json.loads(answer.out)["lost"] == {"0": [2, 7], "1": [0, 1]}  # nothing else on stdout
    assert not is_suspended(expired)


def test_a_terminal_is_not_asked_after_yes(
    command: Command, expired: Pipeline, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    answer = command("resume", kafka_topic.name, "--accept-loss", "--yes")
    assert answer.code == 0
    assert "Partition 0: 5 offsets, 2 to 6, are lost." in answer.out
    assert not is_suspended(expired)


def test_there_is_no_loss_to_accept_where_nothing_expired(
    command: Command, pipeline: Pipeline, kafka_topic: KafkaTopic
) -> None:
    suspend(pipeline.catalog, pipeline.topic, UndecodableRecords("3 records."))
    answer = command("resume", kafka_topic.name, "--accept-loss")
    assert (answer.code, answer.out) == (1, "")
    assert "there is no loss to accept" in answer.err
    assert (
        f"Next step: Leave out --accept-loss: `tableflow resume {kafka_topic.name}`" in answer.err
    )
    assert is_suspended(pipeline)


# ---- status ----


def test_status_shows_a_suspension_with_reason_moment_and_command(
    command: Command, expired: Pipeline, kafka_topic: KafkaTopic
) -> None:
    before = table_of(expired).metadata_location
    (shown,) = command("status", kafka_topic.name, "--json").json
    suspension = suspension_of(table_of(expired), expired.topic)
    assert suspension is not None
    assert (shown["state"], shown["rows"]) == ("suspended", 2)
    assert shown["reason"] == suspension.reason
    assert shown["since"] == suspension.since
    assert shown["resolve"] == f"tableflow resume {kafka_topic.name} --accept-loss"
    text = command("status", kafka_topic.name).out
    assert f"{kafka_topic.name} since {suspension.since}: {suspension.reason}" in text
    assert f"Resolve: {suspension.resolve}" in text
    assert table_of(expired).metadata_location == before  # looking changes nothing
