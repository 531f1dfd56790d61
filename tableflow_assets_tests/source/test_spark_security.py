"""Spark reads from the secured broker what Python's client sees there, and shows nobody the secrets."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from pyspark.sql import DataFrame

from tableflow_assets.base.errors import AccessRefused, TableflowError, TopicRefused
from tableflow_assets.base.masking import SHORTEST_LINE
from tableflow_assets.settings.security import Kafka
from tableflow_assets.settings.settings import TopicOptions
from tableflow_assets.source.kafka_access import KafkaAccess
from tableflow_assets.source.plan import OffsetRange
from tableflow_assets.source.reader import read_in_spark
from tableflow_assets.source.spark_refusals import spark_refusal
from tableflow_assets.stack.stack import Stack
from tableflow_assets.table.spark_errors import named_spark_errors
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify
from tableflow_assets_tests.source.secure_broker import SecureBroker
from tableflow_assets_tests.source.ways import USERS, Ways


def records_of(tableflow: Tableflow, access: KafkaAccess, topic: str) -> DataFrame:
    return read_in_spark(tableflow.spark, access, topic, [OffsetRange(0, 2, 7)])


def secrets_of(access: KafkaAccess) -> list[str]:
    """Pieces that are nowhere to be seen, whatever is put around them."""
    options = access.spark_options()
    quoted = re.findall(
        r'(?:password|clientSecret)="(.*?)(?<!\\)"', options.get("kafka.sasl.jaas.config", "")
    )
    key = options.get("kafka.ssl.keystore.key", "").splitlines()
    return [*quoted, *(line for line in key if len(line) > SHORTEST_LINE and "-----" not in line)]


@pytest.mark.parametrize("way", USERS)
def test_spark_reads_with_the_settings_of_the_log(
    tableflow: Tableflow,
    stack: Stack,
    secure_broker: SecureBroker,
    ways: Ways,
    way: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    topic = secure_broker.make_topic(records=10)
    secure_broker.allow(USERS[way], topic)
    access = ways.named(way)
    records = records_of(tableflow, access, topic)
    assert sorted(row.offset for row in records.collect()) == [2, 3, 4, 5, 6]
    records.explain("extended")
    shown = f"{capfd.readouterr()} {records!r} {stack.state.log_of('spark').read_text()}"
    assert topic in shown
    secrets = secrets_of(access)
    assert secrets
    assert not [secret for secret in secrets if secret in shown]


def failure(tableflow: Tableflow, access: KafkaAccess, topic: str) -> TableflowError:
    with pytest.raises(TableflowError) as caught, named_spark_errors("shop.orders"):
        records_of(tableflow, access, topic).collect()
    return caught.value


def test_what_keeps_spark_out_is_named(
    tableflow: Tableflow, stack: Stack, secure_broker: SecureBroker, ways: Ways
) -> None:
    topic = secure_broker.make_topic(records=10)
    wrong_secret = "never-the-right-word"
    error = failure(tableflow, ways.sasl("sasl", "plain", "plain-reader", wrong_secret), topic)
    assert isinstance(error, AccessRefused) and "Invalid username or password" in error.problem
    assert "password" in error.next_step
    assert (
        wrong_secret not in f"{error!r} {error.__cause__} {stack.state.log_of('spark').read_text()}"
    )

    security = {"protocol": "ssl", "ca_file": ways.ca_file}
    for access, step in (
        (ways.at("expired", **security), "renew"),
        (ways.at("elsewhere", **security), "name that its certificate has"),
        (ways.at("elsewhere", protocol="ssl"), "kafka.security.ca_file"),
        (ways.at("mutual", **security), "client_certificate_file"),
    ):
        error = failure(tableflow, access, topic)
        assert isinstance(error, AccessRefused) and step in error.next_step

    word = secure_broker.plain_users["nobody"]
    nobody = ways.sasl("sasl", "plain", "nobody", word)
    for _ in ("knows nothing of it", "knows of it"):
        error = failure(tableflow, nobody, topic)
        assert isinstance(error, TopicRefused) and "Grant Read" in error.next_step
        secure_broker.allow("nobody", topic, ("DESCRIBE",))
    assert repr(topic) in error.problem


def test_a_token_endpoint_that_java_may_not_ask_is_named() -> None:
    """Of clients from Kafka 4 on, which allow none unless told."""
    text = (
        "Caused by: org.apache.kafka.common.config.ConfigException: The value of "
        "sasl.oauthbearer.token.endpoint.url (https://id.example) is not allowed. Update system "
        "property 'org.apache.kafka.sasl.oauthbearer.allowed.urls' to allow https://id.example"
    )
    error = spark_refusal(text)
    assert isinstance(error, AccessRefused) and "-Dorg.apache.kafka" in error.next_step
    assert spark_refusal("java.lang.NullPointerException") is None


def test_a_topic_of_the_secured_broker_becomes_a_table(
    tableflow: Tableflow, secure_broker: SecureBroker, ways: Ways
) -> None:
    """The whole way, with no more rights than the documentation asks for."""
    topic = secure_broker.make_topic(records=50)
    secure_broker.allow(USERS["scram-sha-512"], topic)
    access = ways.scram_sha_512()
    kafka = Kafka(bootstrap_servers=access.bootstrap_servers, security=access.security)
    raw = {topic: TopicOptions(value="raw", key="raw")}
    secured = Tableflow(tableflow.settings.model_copy(update={"kafka": kafka, "topics": raw}))
    topic_settings = secured.topic(topic)
    # The session of all tests, which is not ours to close.
    pipeline = replace(secured.pipeline(topic_settings), connect_spark=lambda: tableflow.spark)
    progress = pipeline.catch_up(run_id="secured")
    assert (progress.rows, progress.dead_letters) == (50, 0)
    results = verify(secured.log, secured.catalog, topic_settings, registry=secured.registry)
    assert results and all(result.ok for result in results)
