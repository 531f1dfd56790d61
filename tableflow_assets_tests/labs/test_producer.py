"""The producer against librdkafka's mock broker: what arrives, at what pace, and what fails."""

from __future__ import annotations

import io
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import fastavro
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from tableflow_assets.base.errors import IncompatibleSchema, ServerUnreachable, SettingsError
from tableflow_assets.labs import DeliveryFailed, LabRecord, generate_live, produce, records
from tableflow_assets.labs import producer as producer_module
from tableflow_assets.labs.avro_schemas import parsed_schema
from tableflow_assets_tests.labs.servers import FakeRegistry, MockKafka, running_registry

NOBODY = "127.0.0.1:1"


@pytest.fixture
def broker() -> Iterator[MockKafka]:
    broker = MockKafka()
    yield broker
    broker.stop()


@pytest.fixture
def kafka(broker: MockKafka) -> str:
    return broker.address


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


@pytest.fixture
def registry_url(registry: FakeRegistry) -> Iterator[str]:
    with running_registry(registry) as url:
        yield url


def read_all(kafka: str, topic: str, count: int) -> list[Message]:
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "test"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    messages = consumer.consume(count, timeout=20)
    consumer.close()
    return messages


def test_records_arrive_framed_keyed_and_stamped(
    kafka: str, registry: FakeRegistry, registry_url: str
) -> None:
    sent = list(records(seed=5, count=300, topics=["payments"]))
    assert produce(kafka, registry_url, sent) == {"payments": 300}

    by_time = {record.timestamp_ms: record for record in sent}
    arrived = read_all(kafka, "payments", 300)
    assert len(arrived) == 300
    for message in arrived:
        record = by_time.pop(message.timestamp()[1])
        value = message.value()
        assert isinstance(value, bytes)
        assert struct.unpack(">bI", value[:5]) == (0, *registry.registered.values())
        payload = io.BytesIO(value[5:])
        schema = parsed_schema("payments")
        assert fastavro.schemaless_reader(payload, schema, None) == record.value
        assert message.key() == record.key.encode()


def test_a_key_stays_on_its_partition_and_keys_spread(kafka: str, registry_url: str) -> None:
    sent = list(records(seed=5, count=1_000, topics=["payments"]))
    produce(kafka, registry_url, sent)
    places: dict[object, set[object]] = {}
    for message in read_all(kafka, "payments", 1_000):
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(partitions) == 1 for partitions in places.values())
    assert len(set().union(*places.values())) > 1
    assert len(places) < 1_000


def test_counts_are_per_topic_and_schemas_registered_once(
    kafka: str, registry: FakeRegistry, registry_url: str
) -> None:
    sent = list(records(seed=5, count=600))
    told: list[int] = []
    counts = produce(kafka, registry_url, sent, on_progress=told.append)
    assert counts == Counter(record.topic for record in sent)
    assert told[-1] == 600
    assert sorted(registry.subjects()) == sorted(f"{topic}-value" for topic in counts)


def test_rate_paces_the_stream(kafka: str, registry_url: str) -> None:
    began = time.monotonic()
    produce(kafka, registry_url, records(seed=5, count=100), rate=100)
    assert 0.95 < time.monotonic() - began < 3


def test_stop_ends_a_live_stream_and_keeps_what_was_sent(kafka: str, registry_url: str) -> None:
    stop = threading.Event()
    threading.Timer(1.0, stop.set).start()
    taken: list[LabRecord] = []

    def watched() -> Iterator[LabRecord]:
        for record in generate_live(5):
            taken.append(record)
            yield record

    counts = produce(kafka, registry_url, watched(), rate=200, stop=stop)
    sent = taken[: sum(counts.values())]
    assert counts == Counter(record.topic for record in sent)
    assert len(taken) - len(sent) <= 1  # taken from the stream at the very moment of the stop
    assert 50 < len(taken) < 400
    # Stamped when sent, not when the stream was created.
    assert taken[-1].timestamp_ms - taken[0].timestamp_ms > 500


def test_records_that_kafka_does_not_take_in_time_are_reported(
    broker: MockKafka, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(producer_module.PRODUCER_SETTINGS, "delivery.timeout.ms", 500)

    def broker_leaves_for_good() -> Iterator[LabRecord]:
        for number, record in enumerate(records(seed=5, count=100)):
            if number == 50:
                broker.stop()
            yield record

    with pytest.raises(DeliveryFailed, match=r"did not take \d+ lab records.*Message timed out"):
        produce(broker.address, registry_url, broker_leaves_for_good())


def test_a_record_too_large_to_send_is_reported(
    kafka: str, registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(producer_module.PRODUCER_SETTINGS, "message.max.bytes", 1_000)
    (small,) = records(seed=5, count=1, topics=["hotel_reviews"])
    large = replace(small, value=small.value | {"review_text": "long " * 1_000})
    with pytest.raises(DeliveryFailed, match=r"did not take 1 lab records.*1 were acknowledged"):
        produce(kafka, registry_url, [small, large])


def test_a_broker_that_does_not_answer_is_named(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_module, "SECONDS_TO_ANSWER", 1)
    with pytest.raises(ServerUnreachable, match=r"Kafka at 127\.0\.0\.1:1 does not answer"):
        produce(NOBODY, registry_url, records(seed=5, count=1))


def test_a_registry_that_does_not_answer_is_named(kafka: str) -> None:
    with pytest.raises(ServerUnreachable, match=r"registry at http://127\.0\.0\.1:1 does not"):
        produce(kafka, f"http://{NOBODY}", records(seed=5, count=1))


def test_an_incompatible_schema_in_the_registry_is_told(
    kafka: str, registry: FakeRegistry, registry_url: str
) -> None:
    registry.refusal = 409
    with pytest.raises(IncompatibleSchema, match="payments-value"):
        produce(kafka, registry_url, records(seed=5, count=1, topics=["payments"]))


def test_a_rate_that_sends_nothing_is_refused() -> None:
    with pytest.raises(SettingsError, match="0 records per second"):
        produce(NOBODY, "http://unused", [], rate=0)
