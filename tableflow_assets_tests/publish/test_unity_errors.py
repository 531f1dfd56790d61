"""Unity Catalog: rights, names, and servers that do not do what they should."""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, UUIDType

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged
from tableflow_assets.publish.publish import publish
from tableflow_assets.publish.unity.errors import UnityAnswer
from tableflow_assets_tests.publish.sources import a_source, with_more_columns
from tableflow_assets_tests.publish.worlds.unity import (
    DatabricksWorld,
    OpenSourceWorld,
    UnityWorld,
)
from tableflow_assets_tests.publish.worlds.unity_stub_kept import Refusal

SHORT = 0.3  # seconds that a request may take, in tests of a server that is slow
CLIENTS = ("databricks", "open_source")


@pytest.fixture(params=[DatabricksWorld, OpenSourceWorld], ids=lambda kind: str(kind.flavor))
def world(request: pytest.FixtureRequest) -> Iterator[UnityWorld]:
    with request.param() as world:
        yield world


@pytest.fixture
def databricks() -> Iterator[DatabricksWorld]:
    with DatabricksWorld() as world:
        yield world


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for client in CLIENTS:
        monkeypatch.setattr(f"tableflow_assets.publish.unity.{client}.HTTP_SECONDS", SHORT)


# Rights, and what has to be there.


@pytest.mark.parametrize(
    ("missing", "databricks_sql", "open_source_right"),
    [
        ("USE", "GRANT USE CATALOG ON CATALOG `main`", '"USE CATALOG"'),
        ("CREATE SCHEMA", "CREATE SCHEMA ON CATALOG `main`", '"CREATE SCHEMA"'),
        (
            "CREATE TABLE",
            "CREATE TABLE, EXTERNAL USE SCHEMA ON SCHEMA `main`.`shop`",
            '"CREATE TABLE"',
        ),
        (
            "EXTERNAL",
            "GRANT CREATE EXTERNAL TABLE, EXTERNAL USE LOCATION ON EXTERNAL",
            '"USE SCHEMA"',
        ),
    ],
)
def test_a_missing_right_is_told_with_what_to_grant(
    world: UnityWorld, missing: str, databricks_sql: str, open_source_right: str
) -> None:
    world.writer.rights.remove(missing)
    with pytest.raises(CatalogRefused, match=missing) as excinfo:
        publish(world.catalog(), a_source)
    right = databricks_sql if world.flavor == "databricks" else open_source_right
    assert right in excinfo.value.next_step


def test_only_its_owner_takes_a_table_out(world: UnityWorld) -> None:
    source = a_source()
    publish(world.catalog(), lambda: source)
    catalog = world.without_right_to_create()
    listing = catalog.find(source)
    assert listing is not None
    with pytest.raises(CatalogRefused) as excinfo:
        catalog.drop(source, listing)
    expected = "GRANT MANAGE ON SCHEMA" if world.flavor == "databricks" else "owner"
    assert expected in excinfo.value.next_step


def test_a_catalog_that_is_not_there(world: UnityWorld) -> None:
    world.stub.catalogs.clear()
    for ask in (
        lambda: world.catalog().probe(),
        lambda: publish(world.catalog(), a_source),
    ):
        with pytest.raises(CatalogRefused) as excinfo:
            ask()
        assert "Create the catalog `main`" in excinfo.value.next_step


def test_a_workspace_without_a_metastore(databricks: DatabricksWorld) -> None:
    databricks.stub.has_metastore = False
    # Not even looking says that there is no table: nobody is there who could know.
    for ask in (databricks.catalog().find, lambda source: publish(databricks.catalog(), a_source)):
        with pytest.raises(CatalogRefused) as excinfo:
            ask(a_source())
        assert "metastore" in excinfo.value.next_step


def test_a_bucket_that_is_no_external_location(world: UnityWorld) -> None:
    world.stub.external_locations = ["s3://another/"]
    with pytest.raises(CatalogRefused, match="s3://lake") as excinfo:
        publish(world.catalog(), a_source)
    assert "external location" in excinfo.value.next_step.lower()


def test_two_entries_cannot_be_at_one_place(world: UnityWorld) -> None:
    source = a_source()
    publish(world.catalog(), lambda: source)
    with pytest.raises(CatalogRefused) as excinfo:
        publish(world.catalog(), lambda: replace(source, name="another_name"))
    assert "same place" in excinfo.value.next_step


def test_a_schema_that_somebody_makes_meanwhile_is_as_good(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    world.stub.breaks["POST schemas"] = "after"
    with pytest.raises(CatalogAway):
        catalog.ensure_namespace(source)
    catalog.ensure_namespace(source)
    assert world.stub.schemas == {"main.shop"}


def test_a_column_that_delta_cannot_have_is_refused_by_name(world: UnityWorld) -> None:
    schema = Schema(NestedField(1, "session", UUIDType(), required=False))
    with pytest.raises(CatalogRefused, match="'session'"):
        world.catalog().listing_for(replace(a_source(), schema=schema))


# Servers that do not do what they should.


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_what_may_pass_is_worth_another_try(world: UnityWorld, status: int) -> None:
    catalog = world.catalog()
    catalog.probe()
    begun = time.monotonic()
    with (
        world.stub.fails(status, Retry_After="120"),
        pytest.raises(CatalogAway, match=str(status)[0]),
    ):
        catalog.probe()
    with world.stub.fails(status, Retry_After="120"), pytest.raises(CatalogAway):
        world.catalog().probe()  # one that has no token yet
    assert time.monotonic() - begun < 60  # not the two minutes that it was told


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("has_token", [True, False])
def test_a_server_that_is_slow_holds_nobody_up(world: UnityWorld, has_token: bool) -> None:
    catalog = world.catalog()
    if has_token:
        catalog.probe()
    world.stub.delay = 5 * SHORT
    with pytest.raises(CatalogAway, match="does not answer"):  # else there would be the answer
        catalog.probe()


@pytest.mark.parametrize("status", [200, 404])
def test_a_server_that_is_no_unity_catalog(world: UnityWorld, status: int) -> None:
    catalog = world.catalog()
    catalog.probe()
    world.stub.garbage = b"<html><title>Hello</title></html>"
    if status == 404:
        world.stub.failing = (404, {})
    for ask in (catalog.probe, lambda: publish(catalog, a_source)):
        with pytest.raises(CatalogRefused) as excinfo:
            ask()
        assert "`host`" in excinfo.value.next_step


def test_a_client_that_is_not_installed(world: UnityWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any) -> Any:
        if name.startswith(("databricks", "unitycatalog")):
            raise ModuleNotFoundError(name=name)
        return real(name, *arguments)

    catalog = world.catalog()
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(CatalogRefused, match="is not installed") as excinfo:
        catalog.probe()
    assert "tableflow-assets[unity]" in excinfo.value.next_step


@pytest.mark.parametrize(("status", "code"), [(400, "TABLE_ALREADY_EXISTS"), (409, "ABORTED")])
def test_what_somebody_else_did_first_is_looked_at_again(
    world: UnityWorld, monkeypatch: pytest.MonkeyPatch, status: int, code: str
) -> None:
    def refuse(*_: object) -> None:
        raise Refusal(status, code, "")

    monkeypatch.setattr(world.stub, "_create_table", refuse)
    catalog, source = world.catalog(), a_source()
    catalog.ensure_namespace(source)
    with pytest.raises(ListingChanged):
        catalog.create(source, catalog.listing_for(source))


def test_an_answer_is_told_in_one_short_line() -> None:
    assert "\n" not in str(UnityAnswer(400, "X", "one\ntwo" * 1000))
    assert len(str(UnityAnswer(400, "X", "long" * 1000))) < 400


# Names.


@pytest.mark.parametrize(
    "name", ["a.b", "a b", "a/b", "../x", "a\tb", "a\x00b", "a\x7fb", "\n", "", "x" * 256]
)
def test_a_name_that_unity_cannot_have_is_refused_before_it_is_asked(
    world: UnityWorld, name: str
) -> None:
    catalog = world.catalog()
    with pytest.raises(CatalogRefused):
        publish(catalog, lambda: replace(a_source(), name=name))
    assert world.stub.seen == []


@pytest.mark.parametrize(
    "name", ["a?b=c#d", "%2e%2e", "tick`tock", "ünï-1", "a&b;c", "{x}", "x" * 255]
)
def test_a_name_that_is_allowed_stays_that_name(databricks: DatabricksWorld, name: str) -> None:
    catalog, source = databricks.catalog(), replace(a_source(), name=name)
    publish(catalog, lambda: source)
    assert list(databricks.stub.tables) == [f"main.shop.{name}"]
    assert catalog.find(source) == catalog.listing_for(source)
    databricks.stub.warehouses.add("w1")
    databricks.stub.delta_logs[str(source.delta_location)] = []
    catalog = databricks.of(databricks.writer, warehouse_id="w1")
    publish(catalog, lambda: with_more_columns(source))
    states = [statement["state"] for statement in databricks.stub.statements.values()]
    assert states == ["SUCCEEDED"]


@pytest.mark.parametrize("name", ["a?b", "tick`tock", "ünï"])
def test_the_open_source_one_allows_less(name: str) -> None:
    with OpenSourceWorld() as world, pytest.raises(CatalogRefused, match="letters, digits"):
        world.catalog().listing_for(replace(a_source(), name=name))
