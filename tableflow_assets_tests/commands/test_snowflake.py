"""`tableflow snowflake`: what it shows without asking anybody, and what it runs."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest

from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.commands.conftest import Command
from tableflow_assets_tests.publish.worlds.snowflake import KEY, running_stub
from tableflow_assets_tests.publish.worlds.snowflake_grammar import parsed
from tableflow_assets_tests.publish.worlds.snowflake_stub import ACCOUNT, USER, SnowflakeStub
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, payments
from tableflow_assets_tests.support.tables import pipeline_of

TOKEN = "t0p-s3cret-token"
SETTINGS = """
namespace: shop
catalogs:
  flake:
    type: snowflake
    account: {account}
    user: {user}
    private_key: {{env: {key}}}
    role: publisher
    database: lake
    endpoint: {endpoint}
    integration: {{source: rest, uri: "https://c.example.com", token: {{env: THE_TOKEN}}}}
    external_volume: {{base_url: "s3://lake", role_arn: "arn:aws:iam::123456789012:role/flake"}}
"""

OF_FILES = """
namespace: {namespace}
catalogs:
  flake:
    type: snowflake
    account: myorg-account
    user: tableflow
    private_key: {{env: NOT_NEEDED}}
    database: lake
    external_volume: {{base_url: "{warehouse}"}}
"""


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[SnowflakeStub]:
    monkeypatch.setenv("THE_TOKEN", TOKEN)
    with running_stub(monkeypatch) as stub:
        yield stub
        assert stub.sessions == {}


@pytest.fixture
def with_settings(stub: SnowflakeStub, config_file: Callable[[str], str]) -> tuple[str, str]:
    text = SETTINGS.format(account=ACCOUNT, user=USER, key=KEY, endpoint=stub.address)
    return "--config", config_file(text)


def test_the_set_up_is_shown_with_every_server_down_and_without_secrets(
    command: Command, with_settings: tuple[str, str], stub: SnowflakeStub
) -> None:
    shown = command(*with_settings, "snowflake", "sql")
    assert shown.code == 0, shown.err
    assert "BEARER_TOKEN = '<env:THE_TOKEN>'" in shown.out
    assert TOKEN not in shown.out + shown.err
    said = command(*with_settings, "snowflake", "sql", "--catalog", "flake", "--json").json
    assert said["catalog"] == "flake"
    statements = [one for part in said["statements"].values() for one in part]
    assert len(statements) == 9
    for statement in statements:
        parsed(statement)
        assert f"{statement};" in shown.out
    assert stub.logins == []


def test_the_set_up_is_run_once_confirmed_and_with_the_secrets(
    command: Command,
    with_settings: tuple[str, str],
    stub: SnowflakeStub,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    asked = command(*with_settings, "snowflake", "apply", "--role", "ACCOUNTADMIN")
    assert (asked.code, "Run this in" in asked.err) == (130, True)
    assert TOKEN not in asked.out + asked.err
    assert stub.statements == []
    done = command(*with_settings, "snowflake", "apply", "--role", "ACCOUNTADMIN", "--yes")
    assert done.code == 0, done.err
    assert stub.engine.volumes == {"TABLEFLOW": "s3://lake/"}
    assert stub.engine.integrations == {"TABLEFLOW": "ICEBERG_REST"}
    assert stub.engine.databases == {"LAKE": {"PUBLIC", "SHOP"}}
    assert "EXTERNAL VOLUME" in stub.engine.grants
    assert any(TOKEN in statement for statement in stub.statements)
    assert TOKEN not in done.out + done.err
    assert 'DESCRIBE EXTERNAL VOLUME "TABLEFLOW"' in done.out


def test_a_role_that_may_not_is_told_what_to_do(
    command: Command, with_settings: tuple[str, str], stub: SnowflakeStub
) -> None:
    refused = command(*with_settings, "snowflake", "apply", "--yes")
    assert (refused.code, "Insufficient privileges" in refused.err) == (1, True)
    assert "administrator" in refused.err
    assert TOKEN not in refused.out + refused.err
    assert stub.engine.volumes == {}


def test_which_catalog_is_asked_where_it_is_not_clear(
    command: Command, with_settings: tuple[str, str]
) -> None:
    none = command("snowflake", "sql")
    assert (none.code, "have: none" in none.err) == (1, True)
    answer = command(*with_settings, "snowflake", "sql", "--catalog", "other")
    assert (answer.code, "have: flake" in answer.err) == (1, True)


@pytest.mark.usefixtures("on_stack")
def test_the_statements_of_a_topics_table_are_shown(
    command: Command,
    config_file: Callable[[str], str],
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
) -> None:
    kafka_topic.send(PAYMENT, payments(2), partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    text = OF_FILES.format(
        namespace=tableflow.settings.namespace,
        warehouse=tableflow.catalog.storage.warehouse,
    )
    said = command("--config", config_file(text), "snowflake", "sql", kafka_topic.name, "--json")
    assert said.code == 0, said.err
    parts = said.json["statements"]
    (create,) = parts[f"{kafka_topic.name}, at first"]
    refresh, comment = parts[f"{kafka_topic.name}, after each commit"]
    for statement in (create, refresh, comment):
        parsed(statement)
    table = pipeline.catalog.find(pipeline.topic.table)
    assert table is not None
    path = table.metadata_location.removeprefix(tableflow.catalog.storage.warehouse)
    assert f"METADATA_FILE_PATH = '{path}'" in create
    assert refresh.endswith(f"REFRESH '{path}'")
    assert kafka_topic.name in comment
    assert str(table.metadata.current_snapshot_id) in comment
