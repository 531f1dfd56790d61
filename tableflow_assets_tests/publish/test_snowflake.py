"""Snowflake as a catalog, beside what it does like all others: against its stub, by the real connector."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged, NotOurTable
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.base import Listing, SourceTable
from tableflow_assets.publish.snowflake import sql
from tableflow_assets.publish.snowflake.snowflake import Marks, SnowflakeCatalog
from tableflow_assets_tests.publish.sources import a_source, after_a_commit, with_more_columns
from tableflow_assets_tests.publish.worlds.snowflake import (
    OTHER_STORE,
    SnowflakeWorld,
    running_stub,
)
from tableflow_assets_tests.publish.worlds.snowflake_engine import ADMINISTRATOR, Table
from tableflow_assets_tests.publish.worlds.snowflake_stub import SnowflakeStub

NO_PAUSE = ()


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[SnowflakeStub]:
    with running_stub(monkeypatch) as stub:
        yield stub
        assert stub.sessions == {}  # every connection was closed, whatever went wrong


@pytest.fixture
def world(stub: SnowflakeStub) -> SnowflakeWorld:
    return SnowflakeWorld(stub)


def published(world: SnowflakeWorld) -> SourceTable:
    source = a_source()
    publishing.publish(world.catalog(), lambda: source)
    return source


def listed(world: SnowflakeWorld, source: SourceTable) -> Listing:
    listing = world.catalog().find(source)
    assert listing is not None
    return listing


def table_of(world: SnowflakeWorld, source: SourceTable) -> Table:
    return world.stub.engine.tables[("LAKE", "SHOP", source.name.upper())]


def test_names_are_in_capitals_and_the_schema_is_the_namespace_unless_set(
    world: SnowflakeWorld,
) -> None:
    source = a_source("orders_eu")
    assert world.catalog().listing_for(source).name == "LAKE.SHOP.ORDERS_EU"
    assert world.catalog(schema="Sales").listing_for(source).name == "LAKE.SALES.ORDERS_EU"
    publishing.publish(world.catalog(), lambda: source)
    assert json.loads(table_of(world, source).comment)["tableflow.topic"] == source.topic


def test_a_missing_schema_and_database_are_made(world: SnowflakeWorld) -> None:
    source = a_source()
    publishing.publish(world.catalog(database="fresh", schema="new"), lambda: source)
    assert world.stub.engine.databases["FRESH"] == {"PUBLIC", "NEW"}
    world.stub.statements.clear()
    publishing.publish(world.catalog(database="fresh", schema="newer"), lambda: source)
    statements = [
        statement for statement in world.stub.statements if statement.startswith("CREATE")
    ]
    assert statements[0] == 'CREATE SCHEMA IF NOT EXISTS "FRESH"."NEWER"'
    world.stub.statements.clear()
    other = a_source()
    publishing.publish(world.catalog(database="fresh", schema="newer"), lambda: other)
    (made_now,) = [
        statement for statement in world.stub.statements if statement.startswith("CREATE")
    ]
    assert made_now.startswith("CREATE ICEBERG TABLE")


def test_delta_alone_is_not_shown(world: SnowflakeWorld) -> None:
    assert world.catalog().shows(a_source())
    assert not world.catalog().shows(replace(a_source(), formats=("delta",)))


def test_a_table_outside_of_the_volume_is_refused_with_what_to_set(world: SnowflakeWorld) -> None:
    elsewhere = replace(a_source(), metadata_location="s3://lake-of-others/t/metadata/1.json")
    with pytest.raises(CatalogRefused, match="base_url"):
        world.catalog().listing_for(elsewhere)


def test_files_in_another_store_are_known_by_our_name_for_them(stub: SnowflakeStub) -> None:
    world = SnowflakeWorld(stub, volume=OTHER_STORE)
    source = published(world)
    assert table_of(world, source).metadata_location.startswith("s3compat://lake/")
    assert listed(world, source) == world.catalog().listing_for(source)
    assert listed(world, source).location == source.location


@pytest.mark.parametrize("source", ["glue", "rest"])
def test_through_another_catalog_it_reads_what_that_one_says(
    stub: SnowflakeStub, source: str
) -> None:
    world = SnowflakeWorld(stub, source)
    table = published(world)
    newer = with_more_columns(table)
    publishing.publish(world.catalog(), lambda: newer)
    assert listed(world, newer) == world.catalog().listing_for(newer)
    assert [statement for statement in stub.statements if "REFRESH" in statement] == [
        f'ALTER ICEBERG TABLE "LAKE"."SHOP"."{table.name.upper()}" REFRESH'
    ]


def test_while_the_other_catalog_is_behind_it_is_away_and_says_no_wrong_snapshot(
    stub: SnowflakeStub,
) -> None:
    world = SnowflakeWorld(stub, "glue")
    source = published(world)
    newer = after_a_commit(source)
    # Not told by its owner: Glue still has the state before.
    plain = SnowflakeCatalog("flake", world.settings())
    with pytest.raises(CatalogAway, match="integration"):
        publishing.publish(plain, lambda: newer, NO_PAUSE)
    assert listed(world, newer).snapshot == source.snapshot
    stub.engine.files[newer.metadata_location] = newer.schema
    stub.engine.remote[("shop", newer.name)] = newer.metadata_location
    assert publishing.publish(plain, lambda: newer, NO_PAUSE) == "replaced"
    assert listed(world, newer) == plain.listing_for(newer)


def test_a_refresh_by_somebody_else_leaves_no_snapshot_that_would_be_wrong(
    world: SnowflakeWorld,
) -> None:
    source = published(world)
    newer = after_a_commit(source)
    engine = world.stub.engine
    engine.files[newer.metadata_location] = newer.schema
    path = newer.metadata_location.removeprefix("s3://lake/")
    engine.run(sql.refresh_table(world.catalog().name_of(newer), sql.Origin(path)), "PUBLISHER")
    listing = listed(world, newer)
    assert (listing.metadata_location, listing.snapshot) == (newer.metadata_location, None)


def test_somebodys_iceberg_table_is_not_ours_either(world: SnowflakeWorld) -> None:
    source = a_source()
    theirs = Table('{"tableflow.topic": 3}', volume="THEIRS", metadata_location="s3://x/metadata/1")
    world.stub.engine.tables[("LAKE", "SHOP", source.name.upper())] = theirs
    with pytest.raises(NotOurTable, match="THEIRS"):
        publishing.publish(world.catalog(), lambda: source)
    with pytest.raises(NotOurTable):
        publishing.unpublish(world.catalog(), source)
    assert table_of(world, source) == theirs


def test_a_name_that_begins_like_ours_is_another_one(world: SnowflakeWorld) -> None:
    theirs = Table("somebody's own")
    world.stub.engine.tables[("LAKE", "SHOP", "PAYMENTS_OF_2024")] = theirs
    world.stub.engine.tables[("LAKE", "SHOP", "ORDERS_OF_2024")] = replace(theirs, is_iceberg=False)
    world.stub.engine.databases["LAKE"] = {"SHOP_OF_2024"}
    for name in ("payments", "orders", "paymentsXof_2024"):
        source = a_source(name)
        assert publishing.publish(world.catalog(), lambda one=source: one) == "created"  # type: ignore[misc]
    assert world.stub.engine.tables[("LAKE", "SHOP", "PAYMENTS_OF_2024")] == theirs


def test_what_our_role_cannot_see_is_not_replaced_and_the_error_says_so(
    world: SnowflakeWorld,
) -> None:
    source = a_source()
    hidden = Table("somebody's", owner=ADMINISTRATOR, is_seen=False)
    world.stub.engine.tables[("LAKE", "SHOP", source.name.upper())] = hidden
    with pytest.raises(ListingChanged, match="GRANT OWNERSHIP ON ICEBERG TABLE"):
        publishing.publish(world.catalog(), lambda: source)
    assert table_of(world, source) == hidden


def test_what_changed_or_went_since_it_was_looked_at_is_not_replaced(
    world: SnowflakeWorld,
) -> None:
    source = published(world)
    listing = listed(world, source)
    newest = after_a_commit(after_a_commit(source))
    publishing.publish(world.catalog(), lambda: newest)
    older = after_a_commit(source)
    with pytest.raises(ListingChanged):
        world.catalog().replace(older, world.catalog().listing_for(older), listing)
    assert listed(world, newest) == world.catalog().listing_for(newest)
    world.stub.engine.tables.clear()
    with pytest.raises(ListingChanged):
        world.catalog().replace(newest, world.catalog().listing_for(newest), listing)
    world.stub.engine.databases.clear()
    with pytest.raises(ListingChanged):
        world.catalog().replace(newest, world.catalog().listing_for(newest), listing)
    world.catalog().drop(newest, listing)  # what is gone already is no error
    assert world.catalog().find(newest) is None


@pytest.mark.parametrize(
    "comment",
    [
        None,
        "",
        "for the controllers",
        "null",
        "[1]",
        "{}",
        '{"tableflow.table_uuid": "u"}',
        '{"tableflow.table_uuid": 1, "tableflow.topic": "t"}',
    ],
)
def test_a_comment_that_is_not_ours_marks_nothing(comment: str | None) -> None:
    assert Marks.of(comment) is None


def test_a_comment_with_an_odd_snapshot_is_ours_without_one() -> None:
    marks = {"tableflow.table_uuid": "u", "tableflow.topic": "t", "tableflow.snapshot_id": "1e5"}
    assert Marks.of(json.dumps(marks)) == Marks("u", "t", None, "None")
