"""An admin client that follows changed secrets, and whose complaints become errors."""

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

LISTEN_SECONDS = 0.2  # how often to poll for the client's complaints while waiting
# A broker's errors while a partition changes its leader, as happens briefly in a new topic, too.
NO_LEADER_NOW = (
    *("NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"),
    *("UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH"),
)
WHILE_LEADERS_CHANGE = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)  # seconds before asking again


class KafkaAdmin:
    def __init__(self, access: KafkaAccess, timeout_seconds: float) -> None:
        self._access = access
        self._timeout = timeout_seconds
        self._client: AdminClient | None = None
        self._config_digest = ""
        self._complaints = Complaints(access)

    def ask(self, question: Callable[[Any], Any], topic: str = "") -> Any:
        """The answer that the client gives or promises. ``topic``: what the question is about."""
        return self._retry(lambda client: self._answer(client, partial(question, client), topic))

    def ask_each(self, question: Callable[[Any], Any]) -> dict[TopicPartition, Any]:
        """As above, for questions that the client answers partition by partition."""
        answers: dict[TopicPartition, Any] = self._retry(
            lambda client: self._answers(client, question(client))
        )
        return answers

    def _retry(self, ask: Callable[[AdminClient], Any]) -> Any:
        client = self._current_client()
        self._complaints.forget()
        try:
            return retry_after_pauses(partial(ask, client), WHILE_LEADERS_CHANGE, LeaderChanged)
        except LeaderChanged as error:
            raise self._no_answer(client, str(error)) from error

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
            raise self._no_answer(client, reason.str()) from error
        except TimeoutError as error:
            raise self._no_answer(client, "no answer in time") from error

    def _wait(self, client: AdminClient, future: Future[Any]) -> Any:
        """The result, or the client's complaint as soon as there will be no result."""
        deadline = time.monotonic() + self._timeout + 2
        while True:
            try:
                return future.result(timeout=LISTEN_SECONDS)
            except TimeoutError:
                client.poll(0)
                self._complaints.raise_if_final()
                if time.monotonic() > deadline:
                    raise

    def _no_answer(self, client: AdminClient, reason: str) -> ServerUnreachable:
        client.poll(0)
        return self._complaints.error(reason)

    def _current_client(self) -> AdminClient:
        """A new one whenever a secret or a certificate has changed."""
        config = self._access.client_config()
        digest = hashlib.sha256(repr(config).encode()).hexdigest()
        if self._client is None or digest != self._config_digest:
            self._client = self._new_client(config)
            self._config_digest = digest
        return self._client

    def _new_client(self, config: dict[str, str]) -> AdminClient:
        self._complaints = Complaints(self._access)
        settings: dict[str, Any] = {
            "log_level": 0,  # problems are raised, not printed
            "socket.timeout.ms": int(self._timeout * 1000),
            "error_cb": self._complaints,
        }
        try:
            client = AdminClient({**config, **settings})
        except KafkaException as error:
            raise SettingsError(
                "Kafka's client does not accept the settings: " + readable(error.args[0].str()),
                f"Check `{BLOCK}` in tableflow.yaml; see docs/security.md.",
            ) from None
        if self._access.security is not None:
            # The client reports no complaints while it waits for some answers, such as the list of
            # topics. Start with a question during which it does.
            self._answer(client, partial(client.describe_cluster, request_timeout=self._timeout))
        return client


class UnknownTopic(Exception):
    pass


class LeaderChanged(Exception):
    pass
