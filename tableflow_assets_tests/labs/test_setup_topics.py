"""Setting up the topics, with a stand-in for the admin client (no mock broker creates topics)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from tableflow_assets.base.errors import ServerUnreachable, SettingsError, TableflowError
from tableflow_assets.labs import LAB_TOPICS, ensure_topics, setup_topics
from tableflow_assets_tests.labs.servers import FakeRegistry, running_registry


class FakeCluster:
    """What an AdminClient would say: the topics that exist, and how a creation ends."""

    def __init__(self) -> None:
        self.existing: set[str] = set()
        self.created: list[Any] = []
        self.creation_error: int | None = None

    def list_topics(self, timeout: float) -> SimpleNamespace:
        return SimpleNamespace(topics=dict.fromkeys(self.existing))

    def create_topics(self, topics: list[Any], **_: object) -> dict[str, Future[None]]:
        assert topics, "librdkafka refuses an empty list"
        futures: dict[str, Future[None]] = {}
        for topic in topics:
            self.created.append(topic)
            futures[topic.topic] = Future()
            if self.creation_error is None:
                futures[topic.topic].set_result(None)
            else:
                error = KafkaException(KafkaError(self.creation_error))
                futures[topic.topic].set_exception(error)
        return futures


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    cluster = FakeCluster()
    monkeypatch.setattr(setup_topics, "AdminClient", lambda settings: cluster)
    return cluster


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


@pytest.fixture
def registry_url(registry: FakeRegistry) -> Iterator[str]:
    with running_registry(registry) as url:
        yield url


def test_missing_topics_are_created_to_keep_records_forever(
    cluster: FakeCluster, registry_url: str
) -> None:
    cluster.existing = {"payments"}
    ensure_topics("kafka:9092", registry_url, partitions=5)
    assert [topic.topic for topic in cluster.created] == [t for t in LAB_TOPICS if t != "payments"]
    for topic in cluster.created:
        assert (topic.num_partitions, topic.replication_factor) == (5, 1)
        assert topic.config == {"retention.ms": "-1"}


def test_schemas_are_registered_for_existing_topics_too_and_only_once(
    cluster: FakeCluster, registry: FakeRegistry, registry_url: str
) -> None:
    cluster.existing = {"bookings"}
    for _ in range(2):
        ensure_topics("kafka:9092", registry_url, ["bookings"])
    assert registry.subjects() == ["bookings-value"]
    assert cluster.created == []


def test_a_topic_created_by_somebody_else_meanwhile_is_fine(
    cluster: FakeCluster, registry: FakeRegistry, registry_url: str
) -> None:
    cluster.creation_error = KafkaError.TOPIC_ALREADY_EXISTS
    ensure_topics("kafka:9092", registry_url, ["bookings"])
    assert registry.subjects() == ["bookings-value"]


def test_a_refused_creation_is_told(cluster: FakeCluster, registry_url: str) -> None:
    cluster.creation_error = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(TableflowError, match="did not create") as refusal:
        ensure_topics("kafka:9092", registry_url, ["bookings"])
    assert not isinstance(refusal.value, ServerUnreachable)


def test_unknown_topics_are_refused_before_anything_is_created(
    cluster: FakeCluster, registry_url: str
) -> None:
    with pytest.raises(SettingsError, match="nope"):
        ensure_topics("kafka:9092", registry_url, ["bookings", "nope"])
    assert cluster.created == []


def test_a_broker_that_does_not_answer_is_named(
    registry_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup_topics, "SECONDS_TO_ANSWER", 1)
    with pytest.raises(ServerUnreachable) as failure:
        ensure_topics("127.0.0.1:1", registry_url)
    assert (failure.value.server, failure.value.address) == ("Kafka", "127.0.0.1:1")
