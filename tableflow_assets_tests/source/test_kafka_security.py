"""Against a real broker with SASL, TLS and access lists."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from tableflow_assets.base.errors import AccessRefused, ServerUnreachable, TopicRefused
from tableflow_assets.source.log import Log
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.sample import average_record_bytes
from tableflow_assets.verify.read_log import Offsets, _by_partition, read_log
from tableflow_assets.verify.result import Span
from tableflow_assets_tests.source.certificate_authority import Authority
from tableflow_assets_tests.source.java_client import JavaClient, java_client
from tableflow_assets_tests.source.secure_broker import SecureBroker
from tableflow_assets_tests.source.ways import USERS, Ways

QUICKLY = 20
PASSWORD = "p\"a\\s;s w'ord=€"
STRANGER = Authority("stranger")


@pytest.fixture(scope="module")
def java() -> Iterator[JavaClient]:
    with java_client() as client:
        yield client


@pytest.mark.parametrize("way", USERS)
def test_python_and_java_get_in_by_the_same_settings(
    secure_broker: SecureBroker, ways: Ways, java: JavaClient, way: str
) -> None:
    topic = secure_broker.make_topic(records=3)
    secure_broker.allow(USERS[way], topic)
    access = ways.named(way)
    log = Log(access)
    identity = log.identify(topic)
    assert log.end(identity) == {0: 3}
    assert topic in log.topic_names()
    assert topic in java.topic_names(access.spark_options())


def test_the_rights_of_the_documentation_are_enough(
    secure_broker: SecureBroker, ways: Ways
) -> None:
    topic = secure_broker.make_topic(records=20)
    secure_broker.allow("plain-reader", topic)
    log = Log(ways.plain())
    identity = log.identify(topic)
    assert (log.earliest(identity), log.end(identity)) == ({0: 0}, {0: 20})
    assert log.ends([topic, "no-such-topic"]) == {topic: {0: 20}}
    assert log.first_timestamp(identity) is not None
    assert log.is_compacted(topic) is False
    offsets = Offsets()
    span = Span(topic, 0, 5, 20, 20)
    read_log(log, [span], [offsets], lambda _: None)
    assert list(offsets.of(0)) == list(range(5, 20))
    assert average_record_bytes(log, Plan(identity, (OffsetRange(0, 0, 20),))) > 5


def refused(ask: Callable[[], object]) -> AccessRefused:
    began = time.monotonic()
    with pytest.raises(AccessRefused) as caught:
        ask()
    assert time.monotonic() - began < QUICKLY
    assert caught.value.server == "Kafka"
    assert "docs/security.md" in caught.value.next_step
    return caught.value


@pytest.mark.parametrize("mechanism", ["scram-sha-512", "plain"])
def test_a_wrong_password_is_named_and_not_repeated(
    ways: Ways, mechanism: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong_secret = f"wrong-{uuid.uuid4().hex}"
    access = ways.scram(mechanism, wrong_secret) if "scram" in mechanism else None
    log = Log(access or ways.sasl("sasl", "plain", "plain-reader", wrong_secret))
    for ask in (log.topic_names, lambda: log.identify("orders"), lambda: log.ends(["orders"])):
        error = refused(ask)
        assert "SASL authentication error" in error.problem
        assert "password" in error.next_step
        assert wrong_secret not in f"{error!r} {error.__cause__!r} {capfd.readouterr()}"


def test_a_password_changed_on_both_sides_needs_no_new_log(
    secure_broker: SecureBroker, ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(ways.scram_sha_512())
    log.topic_names()
    monkeypatch.setenv("KAFKA_PASSWORD", "the next one")
    refused(log.topic_names)
    secure_broker.add_user("user-scram-sha-512", "the next one")
    log.topic_names()


def test_a_token_that_is_not_given_is_named(ways: Ways) -> None:
    wrong_secret = f"wrong-{uuid.uuid4().hex}"
    error = refused(Log(ways.oauthbearer(wrong_secret)).topic_names)
    assert "OAUTHBEARER token" in error.problem and "invalid_client" in error.problem
    assert "kafka.security.oauth" in error.next_step
    assert wrong_secret not in f"{error!r} {error.__cause__!r}"
    nobody = ways.oauthbearer(endpoint="http://127.0.0.1:1/token")
    assert "Could not connect" in refused(Log(nobody).topic_names).problem


@pytest.mark.parametrize(
    ("listener", "reason", "step"),
    [
        ("expired", "certificate has expired", "renew"),
        ("elsewhere", "mismatch", "name that its certificate has"),
    ],
)
def test_a_certificate_that_does_not_fit_is_named(
    ways: Ways, listener: str, reason: str, step: str
) -> None:
    error = refused(Log(ways.at(listener, protocol="ssl", ca_file=ways.ca_file)).topic_names)
    assert reason in error.problem
    assert step in error.next_step


def test_a_certificate_of_nobody_known_is_named(
    secure_broker: SecureBroker, ways: Ways, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.pem"
    stranger.write_text(STRANGER.pem)
    for tls in ({"ca_file": str(stranger)}, {}):
        error = refused(Log(ways.at("elsewhere", protocol="ssl", **tls)).topic_names)
        assert "certificate" in error.problem
        assert "kafka.security.ca_file" in error.next_step


def test_the_host_is_not_checked_if_told_so(secure_broker: SecureBroker, ways: Ways) -> None:
    security = {"protocol": "ssl", "ca_file": ways.ca_file, "check_hostname": False}
    Log(ways.at("elsewhere", **security)).topic_names()
    refused(Log(ways.at("elsewhere", **{**security, "check_hostname": True})).topic_names)


def test_a_broker_that_wants_a_certificate_of_ours_says_so(ways: Ways) -> None:
    for access in (
        ways.at("mutual", protocol="ssl", ca_file=ways.ca_file),
        ways.mutual(STRANGER),
    ):
        error = refused(Log(access).topic_names)
        assert "client_certificate_file" in error.next_step


def test_a_mechanism_that_the_listener_does_not_have_is_named(ways: Ways) -> None:
    access = ways.sasl("inside", "plain", "somebody", "somehow", protocol="sasl_plaintext")
    error = refused(Log(access).topic_names)
    assert "kafka.security.mechanism" in error.next_step


def test_tls_on_a_port_without_is_named(ways: Ways) -> None:
    error = refused(Log(ways.at("inside", protocol="ssl")).topic_names)
    assert "PLAINTEXT" in error.problem


def test_a_port_that_wants_more_than_plaintext_is_told_from_one_that_is_away(
    secure_broker: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tableflow_assets.source.log.TIMEOUT_SECONDS", 1.0)
    with pytest.raises(ServerUnreachable, match="takes connections") as caught:
        Log(secure_broker.address("sasl")).identify("orders")
    assert "kafka.security.protocol" in caught.value.next_step


def test_a_topic_without_rights_is_named_with_what_to_grant(
    secure_broker: SecureBroker, ways: Ways
) -> None:
    topic = secure_broker.make_topic(records=1)
    nobody = ways.sasl("sasl", "plain", "nobody", secure_broker.plain_users["nobody"])
    log = Log(nobody)
    with pytest.raises(TopicRefused) as caught:
        log.identify(topic)
    assert repr(topic) in caught.value.problem
    assert "Grant Read and DescribeConfigs" in caught.value.next_step
    assert topic not in log.topic_names()
    # May know of it, and not read it: a consumer finds out by the first record.
    secure_broker.allow("nobody", topic, ("DESCRIBE",))
    identity = log.identify(topic)
    with pytest.raises(TopicRefused, match="Kafka at"):
        read_log(log, [Span(topic, 0, 0, 1, log.end(identity)[0])], [], lambda _: None)
    with pytest.raises(TopicRefused):
        log.is_compacted(topic)


class Said:
    """A message that is only the client's word about something."""

    def __init__(self, code: int, partition: int | None = None) -> None:
        self._code, self._partition = code, partition

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return None

    def topic(self) -> str:
        return "orders"

    def error(self) -> KafkaError:
        return KafkaError(self._code)


def test_the_group_that_the_client_insists_on_needs_no_rights() -> None:
    """When the broker says so is a matter of chance: before the records, among them, or after."""
    log, unread = Log("127.0.0.1:1"), {0: Span("orders", 0, 0, 5, 5)}
    messages: Any = [Said(KafkaError.GROUP_AUTHORIZATION_FAILED)]
    assert _by_partition(log, messages, unread) == {}
    assert list(unread) == [0]
    messages = [Said(KafkaError.TOPIC_AUTHORIZATION_FAILED, 0)]
    with pytest.raises(TopicRefused, match="'orders'"):
        _by_partition(log, messages, unread)
