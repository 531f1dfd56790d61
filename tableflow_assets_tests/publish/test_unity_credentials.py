"""Unity Catalog: tokens and secrets, and settings that name them."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from tableflow_assets.base.errors import CatalogAway, CatalogRefused
from tableflow_assets.publish.publish import publish
from tableflow_assets_tests.publish.sources import a_source, with_more_columns
from tableflow_assets_tests.publish.worlds.unity import (
    DatabricksWorld,
    OpenSourceWorld,
    UnityWorld,
)


@pytest.fixture(params=[DatabricksWorld, OpenSourceWorld], ids=lambda kind: str(kind.flavor))
def world(request: pytest.FixtureRequest) -> Iterator[UnityWorld]:
    with request.param() as world:
        yield world


@pytest.fixture
def databricks() -> Iterator[DatabricksWorld]:
    with DatabricksWorld() as world:
        yield world


def test_a_token_that_expires_on_the_way_is_replaced_once(databricks: DatabricksWorld) -> None:
    catalog, source = databricks.catalog(), a_source()
    publish(catalog, lambda: source)
    databricks.stub.expire_tokens()
    assert publish(catalog, lambda: with_more_columns(source)) == "replaced"
    assert databricks.stub.tokens_given == 2


def test_a_token_is_kept_as_long_as_it_lasts(databricks: DatabricksWorld) -> None:
    catalog = databricks.catalog()
    for _ in range(3):
        catalog.probe()
    assert databricks.stub.tokens_given == 1
    databricks.stub.token_seconds = 30  # the SDK's own notion: renewed 40 seconds before its end
    databricks.stub.expire_tokens()
    for _ in range(3):
        catalog.probe()
    assert databricks.stub.tokens_given == 4


def test_a_rotated_secret_needs_no_restart(databricks: DatabricksWorld) -> None:
    catalog = databricks.catalog()
    catalog.probe()
    databricks.writer.secret = "rotated-secret"
    databricks.stub.expire_tokens()
    with pytest.raises(CatalogRefused):
        catalog.probe()
    secret = catalog.settings.client_secret
    assert secret is not None
    os.environ[str(secret.env)] = "rotated-secret"
    catalog.probe()


def test_a_secret_that_is_wrong_is_tried_once(databricks: DatabricksWorld) -> None:
    with pytest.raises(CatalogRefused, match="invalid_client") as excinfo:
        databricks.with_wrong_credentials().probe()
    assert "`client_secret`" in excinfo.value.next_step
    assert databricks.stub.seen.count("POST /oidc/v1/token") == 1


def test_a_token_of_one_s_own_does_for_databricks(databricks: DatabricksWorld) -> None:
    databricks.stub.add_token("a-personal-token", databricks.writer)
    right = databricks.settings(token=databricks.secret("a-personal-token"))
    databricks.of_settings(right).probe()
    wrong = databricks.settings(token=databricks.secret("another-token"))
    with pytest.raises(CatalogRefused) as excinfo:
        databricks.of_settings(wrong).probe()
    assert "`token`" in excinfo.value.next_step


def test_a_secret_that_is_not_there_is_named(world: UnityWorld) -> None:
    catalog = world.catalog()
    for variable in world.variables:
        del os.environ[variable]
    with pytest.raises(CatalogRefused, match="UNITY_TEST_"):
        catalog.probe()


def test_what_the_machine_knows_of_other_workspaces_is_not_used(
    databricks: DatabricksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_HOST", "http://127.0.0.1:1")
    monkeypatch.setenv("DATABRICKS_TOKEN", "of-somebody-else")
    monkeypatch.setenv("DATABRICKS_WORKSPACE_ID", "4711")
    monkeypatch.setenv("DATABRICKS_CONFIG_PROFILE", "not-there")
    monkeypatch.setenv("ARM_CLIENT_ID", "of-azure")
    catalog = databricks.catalog()
    catalog.probe()
    assert catalog.api.client.config.workspace_id is None  # type: ignore[attr-defined]
    assert databricks.stub.seen == [
        "GET /oidc/.well-known/oauth-authorization-server",
        "POST /oidc/v1/token",
        "GET /api/2.1/unity-catalog/catalogs/main",
    ]


def test_the_secret_is_not_sent_to_where_it_would_be_in_the_clear(
    databricks: DatabricksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenSourceWorld() as elsewhere:
        answer = {"token_endpoint": f"{elsewhere.stub.address}/oidc/v1/token"}
        monkeypatch.setattr(databricks.stub, "_oidc", lambda *_: answer)
        with pytest.raises(CatalogRefused, match="token endpoint"):
            databricks.catalog().probe()
        assert elsewhere.stub.seen == []


def test_no_secret_is_logged_or_told(world: UnityWorld, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    source = a_source()
    for catalog in (
        world.catalog(),
        world.with_wrong_credentials(),
        world.without_right_to_create(),
    ):
        texts += [
            repr(catalog),
            repr(vars(catalog)),
            repr(catalog.settings),
            repr(vars(catalog.api)),
        ]
        for tables in (source, with_more_columns(source)):
            try:
                publish(catalog, lambda tables=tables: tables)  # type: ignore[misc]
            except CatalogRefused as error:
                texts += [str(error), repr(error), repr(error.__cause__)]
    with world.stub.fails(500), pytest.raises(CatalogAway) as away:
        publish(world.catalog(), lambda: source, pauses=())
    texts += [str(away.value), caplog.text]
    tokens = [token for token in world.stub.tokens if token.startswith("dbx")]
    assert len(world.secrets) >= 3
    assert [
        secret for secret in (*world.secrets, *tokens) if any(secret in text for text in texts)
    ] == []
    assert "***" not in caplog.text  # nothing had to be masked, either


PAIR = {"client_id": {"env": "A"}, "client_secret": {"env": "B"}}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs either client_id and client_secret"),
        ({**PAIR, "token": {"env": "C"}}, "needs either client_id and client_secret"),
        ({"client_id": {"env": "A"}}, "needs both client_id and client_secret"),
        ({"flavor": "open_source", **PAIR}, "client_id is for databricks"),
        ({"flavor": "open_source", "warehouse_id": "w1"}, "warehouse_id is for databricks"),
        ({**PAIR, "warehouse_id": "a/b"}, "letters, digits"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with DatabricksWorld() as world, pytest.raises(ValidationError, match=message):
        world.settings(**settings)
