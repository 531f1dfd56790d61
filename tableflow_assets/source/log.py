"""The Kafka log as the planner sees it: its identity, and which offsets it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import IsolationLevel, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from tableflow_assets.base.errors import TopicNotFound
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.kafka_admin import KafkaAdmin, UnknownTopic
from tableflow_assets.source.oldest import oldest_timestamps
from tableflow_assets.source.timestamps import milliseconds_of, moment_of

TIMEOUT_SECONDS = 10.0
OLDEST_SECONDS = 3.0  # for one record of each partition; what depends on it can do without
Offsets = dict[int, int]  # Kafka partition → offset


@dataclass(frozen=True)
class TopicIdentity:
    """Identifies a topic for good: one that was deleted and created again has another id."""

    name: str
    cluster_id: str
    topic_id: str
    partitions: tuple[int, ...]


class Log:
    """Read-only questions to a Kafka cluster. Every answer is a network call; nothing is cached."""

    def __init__(self, access: KafkaAccess | str) -> None:
        """``access``: for a cluster without security, its address is enough."""
        self.access = KafkaAccess(access) if isinstance(access, str) else access
        self._admin = KafkaAdmin(self.access, TIMEOUT_SECONDS)

    @property
    def bootstrap_servers(self) -> str:
        return self.access.bootstrap_servers

    def topic_names(self) -> tuple[str, ...]:
        """All topics except Kafka's own."""
        metadata = self._admin.ask(lambda client: client.list_topics(timeout=TIMEOUT_SECONDS))
        return tuple(sorted(name for name in metadata.topics if not name.startswith("_")))

    def cluster_id(self) -> str:
        cluster = self._admin.ask(
            lambda client: client.describe_cluster(request_timeout=TIMEOUT_SECONDS)
        )
        return str(cluster.cluster_id)

    def identify(self, topic: str) -> TopicIdentity:
        cluster_id = self.cluster_id()
        collection = TopicCollection([topic])
        try:
            description = self._admin.ask(
                lambda client: client.describe_topics(collection, request_timeout=TIMEOUT_SECONDS)[
                    topic
                ],
                topic,
            )
        except UnknownTopic as error:
            raise TopicNotFound(
                f"The topic {topic!r} does not exist on {self.bootstrap_servers}.",
                "Create it, or remove it from tableflow.yaml.",
            ) from error
        partitions = tuple(sorted(partition.id for partition in description.partitions))
        return TopicIdentity(topic, cluster_id, str(description.topic_id), partitions)

    def earliest(self, topic: TopicIdentity) -> Offsets:
        return self._offsets(topic, OffsetSpec.earliest())

    def end(self, topic: TopicIdentity) -> Offsets:
        """Where committed records end: an open transaction holds this back."""
        return self._offsets(topic, OffsetSpec.latest())

    def ends(self, topics: Iterable[str]) -> dict[str, Offsets]:
        """The ends of many topics in two calls, however many; topics that do not exist are left out."""
        metadata = self._admin.ask(lambda client: client.list_topics(timeout=TIMEOUT_SECONDS))
        specs = {
            TopicPartition(topic, partition): OffsetSpec.latest()
            for topic in topics
            if topic in metadata.topics
            for partition in metadata.topics[topic].partitions
        }
        ends: dict[str, Offsets] = {}
        for partition, info in self._list_offsets(specs).items():
            ends.setdefault(partition.topic, {})[partition.partition] = info.offset
        return ends

    def first_timestamp(self, topic: TopicIdentity) -> datetime | None:
        """The timestamp of the oldest record still in the log; None for an empty topic."""
        spec = OffsetSpec.for_timestamp(0)
        specs = {TopicPartition(topic.name, partition): spec for partition in topic.partitions}
        stamps = [info.timestamp for info in self._list_offsets(specs).values() if info.offset >= 0]
        return moment_of(min(stamps) * 1000) if stamps else None

    def oldest(self, places: Mapping[str, Mapping[int, int]]) -> dict[str, datetime]:
        """Per topic, the earliest timestamp of the records at these offsets, as far as Kafka says."""
        stamps = oldest_timestamps(self.access, places, OLDEST_SECONDS)
        return {topic: moment_of(milliseconds * 1000) for topic, milliseconds in stamps.items()}

    def ages(self, places: Mapping[str, Mapping[int, int]]) -> dict[str, float]:
        """As above, in seconds from then to now."""
        oldest, now = self.oldest(places), datetime.now(UTC)
        return {topic: max(0.0, (now - stamp).total_seconds()) for topic, stamp in oldest.items()}

    def at(self, topic: TopicIdentity, moment: datetime) -> Offsets:
        """Per partition, the first offset whose timestamp is not before the moment."""
        milliseconds = milliseconds_of(moment)
        if milliseconds <= 0:  # Kafka understands negative ones as "the end" and the like
            return self.earliest(topic)
        return self.end(topic) | self.first_from(topic, milliseconds)

    def first_from(self, topic: TopicIdentity, milliseconds: int) -> Offsets:
        """Per partition, the first offset with such a timestamp or a later one, if there is any."""
        offsets = self._offsets(topic, OffsetSpec.for_timestamp(milliseconds))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def is_compacted(self, topic: str) -> bool:
        """Whether a record may vanish from the middle of the log once its key has a newer one."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        config = self._admin.ask(
            lambda client: client.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)[
                resource
            ],
            topic,
        )
        return "compact" in config["cleanup.policy"].value

    def _offsets(self, topic: TopicIdentity, spec: Any) -> Offsets:
        specs = {TopicPartition(topic.name, partition): spec for partition in topic.partitions}
        return {tp.partition: info.offset for tp, info in self._list_offsets(specs).items()}

    def _list_offsets(self, specs: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        if not specs:
            return {}
        return self._admin.ask_each(
            lambda client: client.list_offsets(
                dict(specs),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=TIMEOUT_SECONDS,
            )
        )
