"""Unity Catalog: what is listed, and how it follows the table. Real clients, against the stub."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged
from tableflow_assets.publish.base import SourceTable
from tableflow_assets.publish.publish import publish, unpublish
from tableflow_assets.publish.unity.types import unity_columns
from tableflow_assets_tests.publish.sources import a_source, after_a_commit, with_more_columns
from tableflow_assets_tests.publish.worlds.unity import (
    STRANGER,
    DatabricksWorld,
    OpenSourceWorld,
    UnityWorld,
)

GRANTS = {"analysts": ["SELECT"], STRANGER: ["SELECT", "MODIFY"]}
NO_WAIT = ()


@pytest.fixture(params=[DatabricksWorld, OpenSourceWorld], ids=lambda kind: str(kind.flavor))
def world(request: pytest.FixtureRequest) -> Iterator[UnityWorld]:
    with request.param() as world:
        yield world


@pytest.fixture
def databricks() -> Iterator[DatabricksWorld]:
    with DatabricksWorld() as world:
        yield world


def kept(world: UnityWorld, source: SourceTable) -> dict[str, Any]:
    return world.stub.tables[world.full_name(source)]


def published_with_grants(world: UnityWorld) -> SourceTable:
    source = a_source()
    publish(world.catalog(), lambda: source)
    world.stub.grants[kept(world, source)["table_id"]] = {k: [*v] for k, v in GRANTS.items()}
    return source


def grants_on(world: UnityWorld, source: SourceTable) -> dict[str, list[str]]:
    return world.stub.grants.get(kept(world, source)["table_id"], {})


def test_a_table_is_listed_as_an_external_delta_table_with_our_marks(world: UnityWorld) -> None:
    source = a_source()
    publish(world.catalog(), lambda: source)
    table = kept(world, source)
    assert (table["table_type"], table["data_source_format"]) == ("EXTERNAL", "DELTA")
    assert table["storage_location"] == source.delta_location
    # No snapshot among them: it would be wrong after the next commit, which changes nothing here.
    assert table["properties"] == {
        "tableflow.table_uuid": source.uuid,
        "tableflow.topic": source.topic,
    }
    first, _, lines, _ = table["columns"]
    assert first["comment"] == "The payment's number."
    assert (first["type_name"], first["type_text"], first["nullable"]) == ("LONG", "bigint", True)
    assert (lines["type_text"], lines["position"]) == ("array<struct<text:string>>", 2)
    if world.flavor == "open_source":  # Databricks' client takes none
        assert table["comment"] == source.description


def test_only_a_table_that_is_kept_as_delta_is_shown(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    assert catalog.shows(source)
    assert not catalog.shows(replace(source, formats=("iceberg",), delta_location=None))


def test_the_schema_is_the_namespace_unless_the_settings_name_one(world: UnityWorld) -> None:
    source = a_source(name="payments")
    assert world.catalog().listing_for(source).name == "main.shop.payments"
    assert world.of(world.writer, schema="sales").listing_for(source).name == "main.sales.payments"


def test_names_are_of_the_case_that_the_flavor_keeps(world: UnityWorld) -> None:
    name = world.of(world.writer, schema="Sales").listing_for(a_source(name="Payments")).name
    assert name == (
        "main.sales.payments" if world.flavor == "databricks" else "main.Sales.payments"
    )


def test_a_commit_changes_nothing_and_is_shown_all_the_same(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    newer, writes = after_a_commit(source), world.writes()
    assert publish(catalog, lambda: newer) == "nothing"
    listing = catalog.find(newer)
    assert listing is not None
    assert listing.snapshot == newer.snapshot
    # The same where the commit falls between the look and the change.
    before = catalog.find(source)
    assert before is not None
    catalog.replace(newer, catalog.listing_for(newer), before)
    assert world.writes() == writes


def test_at_another_place_no_snapshot_of_ours_is_shown(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    world.tamper(source, "location")
    listing = catalog.find(source)
    assert listing is not None
    assert listing.snapshot is None


def test_other_columns_are_listed_anew_and_what_was_granted_stays(world: UnityWorld) -> None:
    source = published_with_grants(world)
    before = kept(world, source)["table_id"]
    newer = with_more_columns(source)
    assert publish(world.catalog(), lambda: newer) == "replaced"
    assert kept(world, source)["table_id"] != before
    assert [column["name"] for column in kept(world, source)["columns"]][-1] == "method"
    assert grants_on(world, source) == GRANTS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["DELETE tables", "POST tables", "PATCH permissions"])
def test_a_line_that_breaks_on_the_way_costs_no_grants(
    world: UnityWorld, what: str, when: Any
) -> None:
    source = published_with_grants(world)
    catalog, newer = world.catalog(), with_more_columns(source)
    world.stub.breaks[what] = when
    publish(catalog, lambda: newer, pauses=(0.0,))
    assert world.stub.breaks == {}
    assert catalog.find(newer) == catalog.listing_for(newer)
    assert {principal: set(rights) for principal, rights in grants_on(world, source).items()} == {
        principal: set(rights) for principal, rights in GRANTS.items()
    }


@pytest.mark.parametrize(
    ("theirs", "message"),
    [
        ({"row_filter": {"function_name": "f", "input_column_names": ["id"]}}, "a row filter"),
        ({"owner": STRANGER}, f"the owner {STRANGER}"),
        ({"columns": [{"name": "id", "mask": {"function_name": "f"}}]}, "column masks"),
    ],
    ids=["filter", "owner", "mask"],
)
def test_what_others_put_on_a_table_is_never_lost(
    databricks: DatabricksWorld, theirs: dict[str, Any], message: str
) -> None:
    source, catalog = a_source(), databricks.catalog()
    publish(catalog, lambda: source)
    kept(databricks, source).update(theirs)
    with pytest.raises(CatalogRefused, match=message) as excinfo:
        publish(catalog, lambda: with_more_columns(source))
    assert f"REPAIR TABLE `main`.`shop`.`{source.name}` SYNC METADATA" in excinfo.value.next_step
    assert kept(databricks, source).items() >= theirs.items()


def with_warehouse(world: DatabricksWorld, newer: SourceTable) -> Any:
    world.stub.warehouses.add("w1")
    columns = [vars(column) for column in unity_columns(newer.schema)]
    world.stub.delta_logs[str(newer.delta_location)] = columns
    return world.of(world.writer, warehouse_id="w1")


def test_with_a_warehouse_other_columns_are_read_from_the_log(databricks: DatabricksWorld) -> None:
    source = published_with_grants(databricks)
    newer = with_more_columns(source)
    catalog = with_warehouse(databricks, newer)
    table_id = kept(databricks, source)["table_id"]
    kept(databricks, source)["owner"] = STRANGER  # no reason to refuse: it stays
    assert publish(catalog, lambda: newer) == "replaced"
    assert catalog.find(newer) == catalog.listing_for(newer)
    assert kept(databricks, source)["table_id"] == table_id
    assert grants_on(databricks, source) == GRANTS


@pytest.mark.parametrize("lost", ["marks", "columns"])
def test_what_a_warehouse_did_not_bring_about_is_listed_anew(
    databricks: DatabricksWorld, lost: str
) -> None:
    source = published_with_grants(databricks)
    newer = with_more_columns(source)
    # As where the Delta log is behind, or where Unity takes the log's properties instead of ours.
    catalog = with_warehouse(databricks, source if lost == "columns" else newer)
    databricks.stub.sync_keeps_properties = lost != "marks"
    publish(catalog, lambda: newer)
    assert catalog.find(newer) == catalog.listing_for(newer)
    assert grants_on(databricks, source) == GRANTS


def test_a_warehouse_that_has_to_start_first_is_not_waited_for(
    databricks: DatabricksWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tableflow_assets.publish.unity.databricks.STATEMENT_SECONDS", 0.2)
    monkeypatch.setattr("tableflow_assets.publish.unity.databricks.POLL_SECONDS", 0.05)
    source = published_with_grants(databricks)
    newer = with_more_columns(source)
    catalog = with_warehouse(databricks, newer)
    databricks.stub.warehouse_is_starting = True
    with pytest.raises(CatalogAway, match="w1"):
        publish(catalog, lambda: newer, pauses=NO_WAIT)
    assert [statement["state"] for statement in databricks.stub.statements.values()] == ["CANCELED"]
    databricks.stub.warehouse_is_starting = False
    publish(catalog, lambda: newer, pauses=NO_WAIT)
    assert catalog.find(newer) == catalog.listing_for(newer)


def test_a_warehouse_that_may_not_or_is_not_there(databricks: DatabricksWorld) -> None:
    source = published_with_grants(databricks)
    newer, writes = with_more_columns(source), databricks.writes()
    catalog = with_warehouse(databricks, newer)
    databricks.writer.rights.remove("MODIFY")
    with pytest.raises(CatalogRefused) as excinfo:
        publish(catalog, lambda: newer)
    assert f"GRANT SELECT, MODIFY ON TABLE `main`.`shop`.`{source.name}`" in excinfo.value.next_step
    databricks.stub.warehouses.clear()
    with pytest.raises(CatalogRefused) as excinfo:
        publish(catalog, lambda: newer)
    assert "`warehouse_id`" in excinfo.value.next_step
    assert databricks.writes() == writes


@pytest.mark.parametrize("act", ["replace", "drop"])
def test_what_became_somebody_else_s_meanwhile_is_left_alone(world: UnityWorld, act: str) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    listing, newer = catalog.find(source), with_more_columns(source)
    assert listing is not None
    world.make_foreign_table(source)
    with pytest.raises(ListingChanged):
        if act == "drop":
            catalog.drop(source, listing)
        else:
            catalog.replace(newer, catalog.listing_for(newer), listing)
    assert world.foreign_table_is_untouched(source)


def test_a_table_of_another_kind_is_not_ours_whatever_its_marks(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    kept(world, source)["table_type"] = "MANAGED"  # dropping such a one would delete its data
    listing = catalog.find(source)
    assert listing is not None
    assert (listing.table_uuid, listing.topic) == ("", "")


def test_a_table_of_a_kind_that_the_client_does_not_know_is_found(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    world.make_foreign_table(source)
    world.stub.tables[world.full_name(source)] |= {
        "table_type": "HOLOGRAM",
        "data_source_format": "ICE",
        "columns": None,
        "properties": None,
    }
    listing = catalog.find(source)
    assert listing is not None
    assert (listing.table_uuid, listing.columns) == ("", ())


def test_what_is_answered_in_another_order_or_with_a_slash_is_the_same(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    table = kept(world, source)
    table["columns"].reverse()
    table["storage_location"] += "/"
    assert catalog.find(source) == catalog.listing_for(source)


def test_taking_out_what_is_gone_already_is_no_error(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    listing = catalog.find(source)
    assert listing is not None
    assert unpublish(world.catalog(), source)
    catalog.drop(source, listing)


def test_it_can_be_asked_from_within_an_event_loop(world: UnityWorld) -> None:
    catalog, source = world.catalog(), a_source()

    async def inside() -> None:
        publish(catalog, lambda: source)

    asyncio.run(inside())
    assert catalog.find(source) == catalog.listing_for(source)


def test_an_open_source_server_may_want_no_token() -> None:
    with OpenSourceWorld() as world:
        world.stub.open_to_all = True
        catalog, source = world.of_settings(world.settings()), a_source()
        catalog.probe()
        assert publish(catalog, lambda: source) == "created"
