"""Creating the labs' topics and registering their schemas, as often as you like."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tableflow_assets.base.errors import ServerUnreachable, TableflowError
from tableflow_assets.labs.registry import LabRegistry
from tableflow_assets.labs.stream import checked_topics

SECONDS_TO_ANSWER = 10

# Fixed sets carry timestamps of the past, and a broker deletes by timestamp: with the usual seven
# days they would be gone as soon as their segment is closed.
KEEP_FOREVER = {"retention.ms": "-1"}

NO_ANSWER = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
)


def ensure_topics(
    bootstrap_servers: str,
    registry_url: str,
    topics: Collection[str] | None = None,
    partitions: int = 3,
) -> None:
    """Create the topics that do not exist yet, and register every topic's value schema."""
    names = checked_topics(topics)
    try:
        _create_missing(bootstrap_servers, names, partitions)
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() in NO_ANSWER:
            raise ServerUnreachable("Kafka", bootstrap_servers, error.str()) from failure
        raise TableflowError(
            f"Kafka at {bootstrap_servers} did not create the lab topics: {error.str()}",
            "Create them by hand, or ask for what the broker's message allows.",
        ) from failure
    registry = LabRegistry(registry_url)
    for topic in names:
        registry.register(topic)


def _create_missing(bootstrap_servers: str, topics: Collection[str], partitions: int) -> None:
    # The name keeps the client alive: once it is collected, its futures never resolve.
    # Its log level is low because what it would log is raised as an error.
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 2})
    existing = admin.list_topics(timeout=SECONDS_TO_ANSWER).topics
    new_topics = [
        NewTopic(topic, num_partitions=partitions, replication_factor=1, config=KEEP_FOREVER)
        for topic in topics
        if topic not in existing
    ]
    if not new_topics:
        return
    for creation in admin.create_topics(new_topics, request_timeout=SECONDS_TO_ANSWER).values():
        try:
            creation.result()
        except KafkaException as failure:
            # Somebody else created it since we looked, which is just as good.
            if failure.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
