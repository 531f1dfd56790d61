"""Errors for a broker that refuses access: Kafka's client retries forever and raises nothing."""

from __future__ import annotations

import re
from contextlib import suppress

from confluent_kafka import KafkaError, Message

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import (
    AccessRefused,
    ServerUnreachable,
    TableflowError,
    TopicRefused,
)
from tableflow_assets.source.certificates import authorities
from tableflow_assets.source.kafka_access import BLOCK, KafkaAccess
from tableflow_assets.source.refusals import (
    accepts_connections,
    certificate_problem,
    next_step,
    readable,
)

REFUSALS = (
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
)
# These point to TLS, though the client reports them as network errors.
REFUSING_WORDS = r"[Aa]lert|certificate|PLAINTEXT broker listener"


class Complaints:
    """A client's ``error_cb``: called while the client is polled."""

    def __init__(self, access: KafkaAccess) -> None:
        self._access = access
        self.forget()

    def forget(self) -> None:
        self._refusal = ""
        self._all_down = False

    def __call__(self, error: KafkaError) -> None:
        text = error.str()
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
        elif error.code() in REFUSALS or re.search(REFUSING_WORDS, text):
            self._refusal = text

    def __repr__(self) -> str:
        return f"Complaints({self._access.bootstrap_servers})"

    def raise_if_final(self) -> None:
        """One broker may have trouble of its own; only all of them, or a missing token, end the wait."""
        if self._refusal and (self._all_down or "token" in self._refusal):
            raise self.error()

    def error(self, otherwise: str = "no answer in time") -> ServerUnreachable:
        """The error to raise when a question was not answered."""
        servers = self._access.bootstrap_servers
        if not self._refusal:
            return self._silent(otherwise)
        reason = readable(self._refusal)
        if "verify failed" in reason:
            reason = f"its certificate is not accepted: {self._certificate_problem() or reason}"
        secrets.forget()  # the store may have newer ones by now
        return AccessRefused("Kafka", servers, reason, next_step(reason, BLOCK))

    def _silent(self, otherwise: str) -> ServerUnreachable:
        servers = self._access.bootstrap_servers
        if not any(accepts_connections(server) for server in servers.split(",")):
            return ServerUnreachable("Kafka", servers, otherwise)
        protocol = self._access.security.protocol if self._access.security else "plaintext"
        return ServerUnreachable(
            "Kafka",
            servers,
            f"{otherwise}, though the port takes connections",
            f"Check that the broker is healthy, and that this listener's protocol is "
            f"{protocol}, as `{BLOCK}.protocol` says; see docs/security.md.",
        )

    def _certificate_problem(self) -> str | None:
        security = self._access.security
        if security is None:
            return None
        broker = re.match(r"\w+://(\S+?)/", self._refusal)
        address = broker[1] if broker else self._access.bootstrap_servers.split(",")[0]
        with suppress(TableflowError):  # a faulty setting would have been raised before
            authority_pem = authorities(security, BLOCK, self._access.aws)
            return certificate_problem(address, authority_pem, security.check_hostname)
        return None


def is_about_a_partition(message: Message) -> bool:
    """False for the refusal of the consumer group, which the client requires and we never use."""
    error = message.error()
    return error is None or error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED


def topic_refused(access: KafkaAccess, topic: str) -> TopicRefused:
    return TopicRefused(
        f"Kafka at {access.bootstrap_servers} does not let us read the topic {topic!r}.",
        f"Grant Read and DescribeConfigs on the topic {topic!r} to the user of `{BLOCK}`; "
        "see docs/security.md.",
    )
