"""The producers: what they leave in the log."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.chaos.feed import FEEDS, Feed
from tableflow_assets.chaos.records import Messages, create_topics
from tableflow_assets.chaos.topics import TOPICS, ChaosTopic, topics_of_a_run
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.log import Log
from tableflow_assets.stack import connections

PATIENCE_SECONDS = 60


def feed_of(topic: ChaosTopic, settings: Settings) -> Feed:
    schema_id = create_topics((topic,), settings)[topic.name]
    kafka = connections.kafka_address(settings)
    return FEEDS[topic.producer](topic, kafka, Messages(topic, schema_id, seed=1), seed=1)


def values_of(topic: ChaosTopic, settings: Settings, isolation: str) -> list[bytes]:
    kafka = connections.kafka_address(settings)
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "test",
            "isolation.level": isolation,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic.name, p, 0) for p in range(topic.partitions)])
    values, ends = [], 0
    while ends < topic.partitions:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        if message.error():
            ends += 1
        else:
            values.append(message.value())
    consumer.close()
    return values


def run_for_a_while(feed: Feed, records: int, settings: Settings) -> None:
    log = Log(connections.kafka_address(settings))
    feed.start()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while sum(log.ends([feed.topic.name])[feed.topic.name].values()) < records:
        assert time.monotonic() < deadline
        feed.check()
        time.sleep(0.1)
    feed.stop()
    feed.wait()


def named(topic: ChaosTopic) -> ChaosTopic:
    return replace(topic, name=topics_of_a_run()[0].name)


def test_a_bad_record_comes_when_asked_for_and_only_then(session_settings: Settings) -> None:
    topic = named(ChaosTopic("clicks", partitions=2, bad_records=True))
    feed = feed_of(topic, session_settings)
    feed.send_a_bad_record()
    run_for_a_while(feed, records=9, settings=session_settings)
    assert feed.has_bad_arrived
    assert (feed.bad_sent, feed.bad_acknowledged) == (1, 1)
    values = values_of(topic, session_settings, "read_committed")
    good = [v for v in values if v.startswith(b"\x00\x00") and b"record " in v]
    assert len(values) == len(good) + 1 >= 9


def test_transactions_are_committed_and_aborted_and_none_stays_open(
    session_settings: Settings,
) -> None:
    topic = named(ChaosTopic("t", partitions=1, producer="transactional", abort_share=0.5))
    feed = feed_of(topic, session_settings)
    run_for_a_while(feed, records=60, settings=session_settings)
    everything = values_of(topic, session_settings, "read_uncommitted")
    committed = values_of(topic, session_settings, "read_committed")
    assert 0 < len(committed) < len(everything)
    assert len(everything) % 4 == len(committed) % 4 == 0, "transactions of four records each"
    log = Log(connections.kafka_address(session_settings))
    assert log.end(log.identify(topic.name))[0] > len(everything), "nothing holds the end back"


def test_a_keyed_topic_gets_updates_and_tombstones() -> None:
    topic = ChaosTopic("accounts", partitions=1, mode="upsert", keys=5, tombstone_share=0.3)
    first = Messages(topic, schema_id=1, seed=1)
    messages = [first.good() for _ in range(200)]
    assert {m.key for m in messages} == {f"key-{n}".encode() for n in range(5)}
    tombstones = [m for m in messages if m.value is None]
    assert 20 < len(tombstones) < 100
    again = Messages(topic, schema_id=1, seed=1)
    assert [again.good() for _ in range(200)] == messages


def test_a_producer_that_cannot_work_is_told(session_settings: Settings) -> None:
    topic = named(ChaosTopic("broken", partitions=1))
    feed = feed_of(topic, session_settings)
    feed._settings["no.such.setting"] = "x"
    feed.start()
    feed.join(PATIENCE_SECONDS)
    with pytest.raises(TableflowError, match="has ended"):
        feed.check()
    assert isinstance(feed.failure, KafkaException)


def test_the_topics_cover_what_producers_do() -> None:
    assert any(t.producer == "plain" and t.bad_records and t.partitions > 1 for t in TOPICS)
    assert any(t.producer == "transactional" and 0 < t.abort_share < 1 for t in TOPICS)
    assert any(t.mode == "upsert" and t.keys and 0 < t.tombstone_share < 1 for t in TOPICS)
