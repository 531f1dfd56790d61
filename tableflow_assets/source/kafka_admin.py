"""An admin client that is renewed with its secrets, and whose complaints become errors."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tableflow_assets.base.errors import ServerUnreachable, SettingsError
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.source.kafka_access import BLOCK, KafkaAccess
from tableflow_assets.source.kafka_refusals import Complaints, topic_refused
from tableflow_assets.source.refusals import readable

LISTEN_SECONDS = 0.2  # how long a complaint of the client may wait to be heard
# What a broker says of a partition while another one becomes its leader, as for a moment in a new topic.
NO_LEADER_NOW = (
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"),
    *("UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH"),
)
WHILE_LEADERS_CHANGE = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds before it is asked again


class KafkaAdmin:
    def __init__(self, access: KafkaAccess, timeout_seconds: float) -> None:
        self._access = access
        self._timeout = timeout_seconds
        self._client: AdminClient | None = None
        self._made_with = ""
        self._complaints = Complaints(access)

    def ask(self, question: Callable[[Any], Any], topic: str = "") -> Any:
        """The answer that the client gives, or promises. ``topic``: that it is about."""
        return self._asked(lambda client: self._answer(client, partial(question, client), topic))

    def ask_each(self, question: Callable[[Any], Any]) -> dict[TopicPartition, Any]:
        """As above, where the client promises an answer for each of many partitions."""
        found: dict[TopicPartition, Any] = self._asked(
            lambda client: self._answers(client, question(client))
        )
        return found

    def _asked(self, ask: Callable[[AdminClient], Any]) -> Any:
        client = self._renewed()
        self._complaints.forget()
        try:
            return retry_after_pauses(partial(ask, client), WHILE_LEADERS_CHANGE, LeaderChanged)
        except LeaderChanged as error:
            raise self._unanswered(client, str(error)) from error

    def _answers(
        self, client: AdminClient, promises: Mapping[TopicPartition, Any]
    ) -> dict[TopicPartition, Any]:
        return {
            partition: self._answer(client, partial(promises.get, partition), partition.topic)
            for partition in promises
        }

    def _answer(self, client: AdminClient, question: Callable[[], Any], topic: str = "") -> Any:
        try:
            answer = question()
            return self._wait(client, answer) if isinstance(answer, Future) else answer
        except KafkaException as error:
            reason = error.args[0]
            if reason.name() == "UNKNOWN_TOPIC_OR_PART":
                raise UnknownTopic from error
            if reason.name() == "TOPIC_AUTHORIZATION_FAILED":
                raise topic_refused(self._access, topic) from error
            if reason.name() in NO_LEADER_NOW:
                raise LeaderChanged(reason.str()) from error
            raise self._unanswered(client, reason.str()) from error
        except TimeoutError as error:
            raise self._unanswered(client, "no answer in time") from error

    def _wait(self, client: AdminClient, future: Future[Any]) -> Any:
        """Its result; where there will be none, the client's complaint at once."""
        deadline = time.monotonic() + self._timeout + 2
        while True:
            try:
                return future.result(timeout=LISTEN_SECONDS)
            except TimeoutError:
                client.poll(0)
                self._complaints.raise_what_is_final()
                if time.monotonic() > deadline:
                    raise

    def _unanswered(self, client: AdminClient, reason: str) -> ServerUnreachable:
        client.poll(0)
        return self._complaints.named(reason)

    def _renewed(self) -> AdminClient:
        """Another one whenever a secret or a certificate is another than before."""
        config = self._access.client_config()
        made_with = hashlib.sha256(repr(config).encode()).hexdigest()
        if self._client is None or made_with != self._made_with:
            self._client = self._new_client(config)
            self._made_with = made_with
        return self._client

    def _new_client(self, config: dict[str, str]) -> AdminClient:
        self._complaints = Complaints(self._access)
        settings: dict[str, Any] = {
            "log_level": 0,  # what goes wrong is raised, not printed
            "socket.timeout.ms": int(self._timeout * 1000),
            "error_cb": self._complaints,
        }
        try:
            client = AdminClient({**config, **settings})
        except KafkaException as error:
            raise SettingsError(
                "Kafka's client cannot be made as the settings say: "
                + readable(error.args[0].str()),
                f"Check `{BLOCK}` in tableflow.yaml; see docs/security.md.",
            ) from None
        if self._access.security is not None:
            # A client does not listen to complaints while it waits for some of its answers, such as
            # a list of topics. Ask first for one where it does.
            self._answer(client, partial(client.describe_cluster, request_timeout=self._timeout))
        return client


class UnknownTopic(Exception):
    pass


class LeaderChanged(Exception):
    pass
