"""Since when unread records are in the log, asked of many topics at once."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.settings.settings import Settings
from tableflow_assets.source import log as logs
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.ports import closed_port

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def send(topic: KafkaTopic, partition: int, *minutes: int, value: bytes = b"x") -> None:
    for minute in minutes:
        stamp = int((NOON + timedelta(minutes=minute)).timestamp() * 1000)
        topic.send_bytes([value], partition=partition, timestamp=stamp)


@pytest.fixture
def log(session_settings: Settings) -> Log:
    return Log(connections.kafka_access(session_settings))


def test_the_oldest_of_each_topic_is_the_earliest_among_its_partitions(
    log: Log, session_settings: Settings, kafka_topic: KafkaTopic
) -> None:
    kafka, registry = log.bootstrap_servers, connections.registry_address(session_settings)
    other = KafkaTopic(kafka, registry, f"{kafka_topic.name}-other", partitions=300)
    send(kafka_topic, 0, 1, 7, 8)
    send(kafka_topic, 1, 5, value=b"x" * 900_000)  # larger than what is fetched at once
    for partition in range(300):
        send(other, partition, 3 + partition % 7)
    places = {kafka_topic.name: {0: 1, 1: 0}, other.name: dict.fromkeys(range(4, 300), 0)}
    log.oldest({})  # asks nobody
    begin = time.process_time()
    assert log.oldest(places) == {
        kafka_topic.name: NOON + timedelta(minutes=5),
        other.name: NOON + timedelta(minutes=3),
    }
    assert time.process_time() - begin < 1


def test_where_records_have_expired_the_oldest_is_the_first_that_is_left(
    log: Log, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, 0, 1, 2, 3)
    kafka_topic.delete_records_before(partition=0, offset=2)
    assert log.oldest({kafka_topic.name: {0: 0}}) == {kafka_topic.name: NOON + timedelta(minutes=3)}


def test_what_kafka_does_not_tell_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "OLDEST_SECONDS", 0.5)
    assert Log(f"127.0.0.1:{closed_port()}").oldest({"orders": {0: 0}}) == {}


def test_at_the_end_of_the_log_there_is_no_record(log: Log, kafka_topic: KafkaTopic) -> None:
    send(kafka_topic, 0, 1)
    assert log.oldest({kafka_topic.name: {0: 1, 1: 0}}) == {}
