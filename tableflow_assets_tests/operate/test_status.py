"""How far behind each table is, and what is said when that cannot be told."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.base.errors import ServerUnreachable
from tableflow_assets.operate.status import TopicStatus, status, statuses
from tableflow_assets.settings.settings import Settings, Topic, TopicOptions
from tableflow_assets.source.log import Log
from tableflow_assets.table.ledger import PROPERTY, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.ports import closed_port
from tableflow_assets_tests.support.tables import pipeline_of, table_of


def status_of(tableflow: Tableflow, topic: KafkaTopic) -> TopicStatus:
    return status(tableflow.log, tableflow.catalog, Topic(name=topic.name))


def test_a_topic_without_a_table_lags_by_all_its_records(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(3), partition=1)
    report = status_of(tableflow, kafka_topic)
    assert (report.state, report.lag, report.last_commit) == ("no_table", 3, None)


def test_a_table_is_current_and_then_behind_by_the_new_records(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(5), partition=0)
    pipeline_of(tableflow, kafka_topic).catch_up()
    current = status_of(tableflow, kafka_topic)
    assert (current.state, current.lag, current.rows, current.files) == ("current", 0, 5, 1)
    assert current.oldest_unread_seconds == 0
    assert current.last_commit is not None
    assert timedelta() <= datetime.now(UTC) - current.last_commit < timedelta(minutes=5)

    three_minutes_ago = int((time.time() - 180) * 1000)
    kafka_topic.send(PAYMENT, payments(2, first=5), partition=0)
    kafka_topic.send(PAYMENT, payments(1, first=7), partition=1, timestamp=three_minutes_ago)
    topic = Topic(name=kafka_topic.name, freshness=timedelta(minutes=1))
    (behind,) = statuses(tableflow.log, tableflow.catalog, [topic])
    assert (behind.state, behind.lag, behind.rows) == ("behind", 3, 5)
    assert [(p.committed, p.end, p.lag) for p in behind.partitions] == [(5, 7, 2), (0, 1, 1)]
    assert behind.oldest_unread_seconds == pytest.approx(185, abs=5)
    document = json.loads(json.dumps(behind.to_json()))
    assert (document["state"], document["lag"], document["is_late"]) == ("behind", 3, True)
    assert document["oldest_unread_seconds"] >= 180
    assert [partition["lag"] for partition in document["partitions"]] == [2, 1]
    assert datetime.fromisoformat(document["last_commit"]) == behind.last_commit


def test_a_status_tells_the_delta_version_and_how_far_it_is_behind(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(5))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    report = status_of(tableflow, kafka_topic)
    assert report.formats == ("iceberg", "delta")
    assert report.delta is not None
    assert (report.delta.version, report.delta.behind) == (1, 0)
    assert report.maintenance == ()

    table = table_of(pipeline)  # and a writer that dies before it mirrors its commit
    ledger = {PROPERTY: read_ledger(table).entry.to_property()}
    table.append(table.scan().to_arrow(), snapshot_properties=ledger)
    document = json.loads(json.dumps(status_of(tableflow, kafka_topic).to_json()))
    assert document["delta"] == {"version": 1, "behind": 1, "problem": ""}
    assert document["maintenance"] == ["mirror"]


def test_a_topic_without_a_table_has_no_delta_version(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    report = status_of(tableflow, kafka_topic)
    assert (report.delta, report.maintenance) == (None, ())


def test_a_topic_named_in_the_settings_that_does_not_exist_is_shown_as_an_error(
    tableflow: Tableflow,
) -> None:
    settings = Settings(
        state_dir=tableflow.settings.state_dir, topics={"test-not-there": TopicOptions()}
    )
    topic = settings.topic_named("test-not-there")
    assert topic is not None
    report = status(tableflow.log, tableflow.catalog, topic)
    assert (report.topic, report.state, report.lag) == ("test-not-there", "error", 0)
    assert "'test-not-there' does not exist" in report.reason


def test_a_table_that_somebody_else_changed_is_shown_as_an_error(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    table_of(pipeline).delete("id = 0")
    report = status_of(tableflow, kafka_topic)
    assert report.state == "error"
    assert "not written by Tableflow Assets" in report.reason


def test_a_topic_that_was_created_again_is_not_current(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(4), partition=0)
    pipeline_of(tableflow, kafka_topic).catch_up()
    kafka_topic.delete()
    kafka_topic.create(partitions=2)
    kafka_topic.send(PAYMENT, payments(1), partition=0)
    report = status_of(tableflow, kafka_topic)
    assert report.state == "error"
    assert "created again" in report.reason


def test_a_topic_whose_unread_records_expired_is_not_only_behind(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline_of(tableflow, kafka_topic).catch_up()
    kafka_topic.send(PAYMENT, payments(4, first=2), partition=0)
    kafka_topic.delete_records_before(partition=0, offset=5)
    report = status_of(tableflow, kafka_topic)
    assert report.state == "error"
    assert "expired" in report.reason


def test_a_broker_that_is_away_is_not_the_fault_of_a_topic(
    tableflow: Tableflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tableflow_assets.source.log.TIMEOUT_SECONDS", 1.0)
    address = f"127.0.0.1:{closed_port()}"
    with pytest.raises(ServerUnreachable, match=f"Kafka at {address} does not answer"):
        status(Log(address), tableflow.catalog, Topic(name="orders"))


def test_without_anything_unread_kafka_is_not_asked_for_a_record(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tableflow_assets.source.oldest._consumer", None)
    (report,) = statuses(tableflow.log, tableflow.catalog, [Topic(name=kafka_topic.name)])
    assert (report.state, report.oldest_unread_seconds) == ("no_table", 0)


def test_an_age_that_kafka_does_not_tell_in_time_is_unknown(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    monkeypatch.setattr("tableflow_assets.source.log.OLDEST_SECONDS", 0.0)
    (report,) = statuses(tableflow.log, tableflow.catalog, [Topic(name=kafka_topic.name)])
    assert (report.state, report.lag, report.oldest_unread_seconds) == ("no_table", 1, None)


@pytest.mark.parametrize("state", ["no_table", "error"])
def test_a_status_without_a_commit_can_be_shown_as_json(state: str) -> None:
    document = json.loads(json.dumps(TopicStatus("orders", state, "why").to_json()))
    assert (document["state"], document["lag"], document["last_commit"]) == (state, 0, None)
