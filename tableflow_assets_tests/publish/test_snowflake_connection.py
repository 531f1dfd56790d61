"""The connection to Snowflake, by its real connector: keys, errors, time limits, no secret anywhere."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tableflow_assets.base import secrets
from tableflow_assets.base.errors import CatalogAway, CatalogRefused
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.snowflake import connection as snowflake_connection
from tableflow_assets.publish.snowflake import sql
from tableflow_assets.settings.secret_ref import SecretRef
from tableflow_assets_tests.publish.sources import a_source
from tableflow_assets_tests.publish.worlds.snowflake import (
    KEY,
    SnowflakeWorld,
    a_key,
    pem,
    running_stub,
)
from tableflow_assets_tests.publish.worlds.snowflake_engine import ADMINISTRATOR, Refusal
from tableflow_assets_tests.publish.worlds.snowflake_stub import SnowflakeStub
from tableflow_assets_tests.support.ports import closed_port

NO_PAUSE = ()
PHRASE = "TEST_SNOWFLAKE_PHRASE"


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[SnowflakeStub]:
    with running_stub(monkeypatch) as stub:
        yield stub
        assert stub.sessions == {}  # every connection was closed, whatever went wrong


@pytest.fixture
def world(stub: SnowflakeStub) -> SnowflakeWorld:
    return SnowflakeWorld(stub)


@pytest.mark.parametrize(
    ("refusal", "error", "message"),
    [
        (
            Refusal("003001", "42501", "Insufficient privileges"),
            CatalogRefused,
            "GRANT CREATE ICEB",
        ),
        (Refusal("000606", "57P03", "No active warehouse selected"), CatalogRefused, "warehouse"),
        (Refusal("091357", "22000", "the bucket denies access"), CatalogRefused, "bucket denies"),
        (Refusal("000630", "57014", "reached its statement timeout"), CatalogAway, "timeout"),
        (Refusal("000603", "XX000", "internal error"), CatalogAway, "internal"),
    ],
)
def test_each_error_is_one_to_wait_for_or_one_to_act_on(
    world: SnowflakeWorld, refusal: Refusal, error: type[Exception], message: str
) -> None:
    world.stub.refuses_with = refusal
    with pytest.raises(error, match=message):
        publishing.publish(world.catalog(), a_source, NO_PAUSE)


def test_a_role_that_sees_nothing_is_told_all_that_it_needs(world: SnowflakeWorld) -> None:
    world.stub.engine.hidden.add("PUBLISHER")
    with pytest.raises(CatalogRefused) as excinfo:
        publishing.publish(world.catalog(), a_source)
    for right in sql.grants(world.settings(), sql.TableName("LAKE", "SHOP", "")):
        assert right in excinfo.value.next_step


def test_statements_are_marked_and_limited_in_time(world: SnowflakeWorld) -> None:
    world.catalog(statement_seconds=17).probe()
    parameters = world.stub.logins[-1]["SESSION_PARAMETERS"]
    assert parameters["QUERY_TAG"] == "tableflow"
    assert int(parameters["STATEMENT_TIMEOUT_IN_SECONDS"]) == 17


def test_an_answer_that_does_not_come_is_not_waited_for(world: SnowflakeWorld) -> None:
    catalog = world.catalog(statement_seconds=5)
    world.stub.answers_after = 7
    with pytest.raises(CatalogAway):  # else there would be the answer
        catalog.probe()


def test_a_key_with_a_passphrase_and_a_rotated_one(
    world: SnowflakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, pem(a_key(1), b"open sesame"))
    monkeypatch.setenv(PHRASE, "open sesame")
    catalog = world.catalog(private_key_passphrase=SecretRef(env=PHRASE))
    catalog.probe()
    forgotten: list[None] = []
    monkeypatch.setattr(secrets, "forget", lambda: forgotten.append(None))
    world.stub.public_key = a_key(3).public_key()
    with pytest.raises(CatalogRefused, match="390144"):
        catalog.probe()
    assert forgotten == [None]  # what AWS Secrets Manager said a minute ago is asked anew
    monkeypatch.setenv(KEY, pem(a_key(3), b"open sesame"))
    catalog.probe()


@pytest.mark.parametrize("phrase", [None, "wrong words"])
def test_a_key_that_cannot_be_read_is_named_and_not_quoted(
    world: SnowflakeWorld, monkeypatch: pytest.MonkeyPatch, phrase: str | None
) -> None:
    hidden = pem(a_key(1), b"open sesame")
    monkeypatch.setenv(KEY, hidden)
    monkeypatch.setenv(PHRASE, phrase or "")
    more: dict[str, Any] = {"private_key_passphrase": SecretRef(env=PHRASE)} if phrase else {}
    with pytest.raises(CatalogRefused, match="private key in env:") as excinfo:
        world.catalog(**more).probe()
    assert hidden.splitlines()[1] not in str(excinfo.value)
    assert excinfo.value.__cause__ is None


def test_an_unset_key_is_refused_by_the_name_of_its_variable(
    world: SnowflakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY)
    with pytest.raises(CatalogRefused, match=KEY):
        world.catalog().probe()


def test_without_the_connector_the_error_says_what_to_install(
    world: SnowflakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "snowflake.connector", None)
    with pytest.raises(CatalogRefused, match=r"tableflow-assets\[snowflake\]"):
        world.catalog().probe()


def test_where_nobody_listens_the_error_comes_soon_and_no_log_has_the_key(
    world: SnowflakeWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key, phrase = pem(a_key(1), b"open sesame 7"), "open sesame 7"
    monkeypatch.setenv(KEY, key)
    monkeypatch.setenv(PHRASE, phrase)
    address = f"http://127.0.0.1:{closed_port()}"
    catalog = world.catalog(endpoint=address, private_key_passphrase=SecretRef(env=PHRASE))
    begun = time.monotonic()
    with caplog.at_level(logging.DEBUG), pytest.raises(CatalogAway, match=address) as away:
        catalog.probe()
    assert time.monotonic() - begun < 3 * snowflake_connection.LOGIN_SECONDS
    output = caplog.text + str(away.value)
    assert "snowflake.connector" in caplog.text  # it was on
    hidden = [phrase, *key.splitlines()[1:-1], *pem(a_key(1)).splitlines()[1:-1]]
    assert [secret for secret in hidden if secret in output] == []


def test_secrets_of_statements_are_in_no_log_and_no_error(
    stub: SnowflakeStub, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = SnowflakeWorld(stub, "rest")
    token = "t0p-s3cret-of-the-catalog"
    monkeypatch.setenv(KEY + "_TOKEN", token)
    rest = {"source": "rest", "uri": "https://c.example.com", "token": {"env": KEY + "_TOKEN"}}
    catalog = world.catalog(role=ADMINISTRATOR, integration=rest)
    name = sql.TableName("LAKE", "SHOP", "")
    statements = sql.set_up(catalog.settings, name, lambda secret: secret.resolve())
    assert any(token in statement for statement in statements)
    stub.refuses_with = Refusal("001003", "42000", f"syntax error near '{token}'")
    with caplog.at_level(logging.DEBUG), pytest.raises(CatalogRefused, match="near") as excinfo:
        catalog.run(statements, "shop", lambda _: None)
    stub.refuses_with = None
    with caplog.at_level(logging.DEBUG):
        catalog.run(statements, "shop", lambda _: None)
    assert any(token in statement for statement in stub.statements)
    assert token not in caplog.text + str(excinfo.value)
    assert (excinfo.value.__cause__, excinfo.value.__suppress_context__) == (None, True)
