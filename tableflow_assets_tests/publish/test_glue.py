"""What Glue is told of a table. What all catalogs share is in the behaviour suite.

The server is moto over HTTP with Glue's lock restored: see `worlds/moto_with_glues_lock.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock

import pytest

from tableflow_assets.base.errors import CatalogRefused, ListingChanged, NotOurTable
from tableflow_assets.publish.base import SNAPSHOT_MARK, UUID_MARK, SourceTable
from tableflow_assets.publish.glue.glue import CLUSTER_MARK
from tableflow_assets.publish.publish import publish, unpublish
from tableflow_assets_tests.publish.sources import a_source, after_a_commit, with_more_columns
from tableflow_assets_tests.publish.worlds.glue import GlueWorld


@pytest.fixture
def world() -> Iterator[GlueWorld]:
    with GlueWorld() as running:
        yield running


def only(source: SourceTable, *formats: str) -> SourceTable:
    location = source.delta_location if "delta" in formats else None
    return replace(source, formats=formats, delta_location=location)


def test_an_iceberg_table_is_what_icebergs_own_clients_look_for(world: GlueWorld) -> None:
    source = a_source()
    publish(world.catalog(), lambda: source)
    newer = with_more_columns(source)
    publish(world.catalog(), lambda: newer)
    table = world.table(source)
    parameters, storage = table["Parameters"], table["StorageDescriptor"]
    assert table["TableType"] == "EXTERNAL_TABLE"
    assert table["Description"] == source.description
    assert parameters["table_type"] == "ICEBERG"
    assert parameters["metadata_location"] == newer.metadata_location
    assert parameters["previous_metadata_location"] == source.metadata_location
    assert (parameters[UUID_MARK], parameters[SNAPSHOT_MARK]) == (source.uuid, "2")
    assert storage["Location"] == source.location
    assert storage["Columns"][0] == {
        "Name": "id",
        "Type": "bigint",
        "Comment": "The payment's number.",
        "Parameters": {
            "iceberg.field.id": "1",
            "iceberg.field.optional": "true",
            "iceberg.field.current": "true",
        },
    }
    assert [column["Type"] for column in storage["Columns"]] == [
        *("bigint", "decimal(10,2)", "array<struct<text:string>>", "timestamp", "string")
    ]


@pytest.mark.parametrize("formats", [("delta",), ("iceberg", "delta")])
def test_a_delta_table_is_what_athena_spark_and_trino_look_for(
    world: GlueWorld, formats: tuple[str, ...]
) -> None:
    source = only(a_source(), *formats)
    catalog = world.catalog(format="delta")
    publish(catalog, lambda: source)
    table = world.table(source)
    parameters, storage = table["Parameters"], table["StorageDescriptor"]
    assert parameters["table_type"] == "DELTA"
    assert parameters["spark.sql.sources.provider"] == "delta"
    assert parameters["classification"] == "delta"
    assert parameters[SNAPSHOT_MARK] == "1"
    assert not [name for name in parameters if "metadata_location" in name]
    assert storage["Location"] == storage["SerdeInfo"]["Parameters"]["path"]
    assert storage["Location"] == source.delta_location
    assert [column["Name"] for column in storage["Columns"]] == ["id", "amount", "lines", "paid_at"]
    assert catalog.find(source) == catalog.listing_for(source)


@pytest.mark.parametrize(
    ("formats", "preferred", "shown"),
    [
        (("iceberg",), "delta", "ICEBERG"),
        (("delta",), "iceberg", "DELTA"),
        (("iceberg", "delta"), "iceberg", "ICEBERG"),
        (("iceberg", "delta"), "delta", "DELTA"),
    ],
)
def test_the_preferred_format_counts_where_there_are_two(
    world: GlueWorld, formats: tuple[str, ...], preferred: str, shown: str
) -> None:
    source, catalog = only(a_source(), *formats), world.catalog(format=preferred)
    assert catalog.shows(source)
    publish(catalog, lambda: source)
    assert world.table(source)["Parameters"]["table_type"] == shown


def test_a_table_with_no_format_to_show_is_not_shown(world: GlueWorld) -> None:
    source = replace(a_source(), formats=("delta",), delta_location=None)
    assert not world.catalog().shows(source)


def test_a_change_of_format_leaves_nothing_of_the_other_and_what_others_said(
    world: GlueWorld,
) -> None:
    source = a_source()
    publish(world.catalog(), lambda: source)
    table = world.table(source)
    table["Parameters"]["cost_center"] = "4711"
    world.update(source, table)
    publish(world.catalog(format="delta"), lambda: source)
    as_delta = world.table(source)["Parameters"]
    assert (as_delta["cost_center"], as_delta["table_type"]) == ("4711", "DELTA")
    assert not [name for name in as_delta if "metadata_location" in name]
    publish(world.catalog(), lambda: source)
    as_iceberg = world.table(source)
    assert as_iceberg["Parameters"]["table_type"] == "ICEBERG"
    assert "spark.sql.sources.provider" not in as_iceberg["Parameters"]
    assert "SerdeInfo" not in as_iceberg["StorageDescriptor"]


def test_what_somebody_else_broke_is_mended_and_the_rest_of_their_words_stay(
    world: GlueWorld,
) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    newer = after_a_commit(source)
    publish(catalog, lambda: newer)
    for mark in ("no number", "9" * 5000, ""):
        broken = world.table(source)
        broken["Parameters"][SNAPSHOT_MARK] = mark
        world.update(source, broken | {"Owner": "team:shop", "Retention": 7})
        listing = catalog.find(newer)
        assert listing is not None
        assert listing.snapshot is None
        assert publish(catalog, lambda: newer) == "replaced"
        table = world.table(source)
        assert (table["Owner"], table["Retention"]) == ("team:shop", 7)
        assert table["Parameters"][SNAPSHOT_MARK] == "2"
        assert table["Parameters"]["previous_metadata_location"] == source.metadata_location


def test_no_old_versions_are_kept(world: GlueWorld) -> None:
    source = a_source()
    for newer in (source, after_a_commit(source), with_more_columns(source)):
        publish(world.catalog(), lambda newer=newer: newer)  # type: ignore[misc]
    place = world.place(source)
    versions = world.client().get_table_versions(
        DatabaseName=place["DatabaseName"], TableName=place["Name"]
    )["TableVersions"]
    assert [version["VersionId"] for version in versions] == ["3"]


@pytest.mark.parametrize("preferred", ["iceberg", "delta"])
def test_eight_who_publish_at_once_end_with_the_newest(world: GlueWorld, preferred: str) -> None:
    newest, lock = a_source(), Lock()
    publish(world.catalog(format=preferred), lambda: newest)
    lost = 0

    def commit_and_publish(_number: int) -> None:
        nonlocal newest, lost
        with lock:  # the owner's catalog: one commit after the other
            newest = after_a_commit(newest)
        catalog = world.catalog(format=preferred)
        for _ in range(20):
            try:
                publish(catalog, lambda: newest)
                return
            except ListingChanged:
                lost += 1
        raise AssertionError("never got through")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(commit_and_publish, range(8)))
    catalog = world.catalog(format=preferred)
    assert newest.snapshot == 9
    assert catalog.find(newest) == catalog.listing_for(newest)


def test_older_news_that_comes_late_is_refused_by_the_lock(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    listing = catalog.find(source)
    assert listing is not None
    newest = after_a_commit(after_a_commit(source))
    publish(world.catalog(), lambda: newest)
    older = after_a_commit(source)
    with pytest.raises(ListingChanged, match="changed"):
        catalog.replace(older, catalog.listing_for(older), listing)
    assert world.table(source)["Parameters"]["metadata_location"] == newest.metadata_location


def test_a_table_that_vanished_meanwhile_is_told_as_changed(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    listing = catalog.find(source)
    assert listing is not None
    world.client().delete_table(**world.place(source))
    newer = after_a_commit(source)
    with pytest.raises(ListingChanged):
        catalog.replace(newer, catalog.listing_for(newer), listing)
    assert publish(catalog, lambda: newer) == "created"


def test_a_database_that_vanished_meanwhile_is_told_as_changed(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    with pytest.raises(ListingChanged, match="database"):
        catalog.create(source, catalog.listing_for(source))


def test_what_shows_another_table_now_is_not_dropped(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    listing = catalog.find(source)
    assert listing is not None
    theirs = world.table(source)
    theirs["Parameters"] = {"classification": "csv"}
    world.update(source, theirs)
    with pytest.raises(ListingChanged, match="stays"):
        catalog.drop(source, listing)
    assert world.table(source)["Parameters"] == {"classification": "csv"}
    world.client().delete_table(**world.place(source))
    catalog.drop(source, listing)  # gone already: no error


def test_the_database_stays_when_its_last_table_goes(world: GlueWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publish(catalog, lambda: source)
    assert unpublish(catalog, source)
    database = world.place(source)["DatabaseName"]
    assert world.client().get_database(Name=database)["Database"]["Parameters"] == {
        CLUSTER_MARK: source.cluster_id
    }


@pytest.mark.parametrize(
    ("cluster", "database"),
    [
        ("MkU3OEVBNTcwNTJENDM2Qg", "mku3oevbntcwntjendm2qg"),
        ("5L6g3nShT-eMCtK--X86sw", "5l6g3nsht_emctk__x86sw"),
        ("_X-y", "_x_y"),
        ("lkc-3mnm0m", "lkc_3mnm0m"),
        ("a'; DROP", "a___drop"),
    ],
)
def test_the_database_is_called_after_the_cluster(
    world: GlueWorld, cluster: str, database: str
) -> None:
    source = replace(a_source("payments"), cluster_id=cluster)
    assert world.catalog().listing_for(source).name == f"{database}.payments"
    assert world.catalog(database="Shop").listing_for(source).name == "shop.payments"


def test_a_cluster_whose_name_falls_together_with_anothers_is_refused(world: GlueWorld) -> None:
    first = replace(a_source("payments"), cluster_id="Ab-c")
    publish(world.catalog(), lambda: first)
    same_name = replace(a_source("payments"), cluster_id="aB_c", topic="other")
    with pytest.raises(NotOurTable):
        publish(world.catalog(), lambda: same_name)
    other_name = replace(a_source("orders"), cluster_id="aB_c")
    with pytest.raises(CatalogRefused, match="Ab-c") as excinfo:
        publish(world.catalog(), lambda: other_name)
    assert "database:" in excinfo.value.next_step
    # Two clusters that are told to share a database may.
    for source in (first, other_name):
        publish(world.catalog(database="shared"), lambda source=source: source)  # type: ignore[misc]


def test_a_table_of_no_known_cluster_needs_a_database(world: GlueWorld) -> None:
    source = replace(a_source(), cluster_id="")
    with pytest.raises(CatalogRefused, match="cluster") as excinfo:
        publish(world.catalog(), lambda: source)
    assert "database:" in excinfo.value.next_step
    assert publish(world.catalog(database="products"), lambda: source) == "created"


@pytest.mark.parametrize(
    "name", ["Payments", "pay-ments", "pay.ments", "pay/ments", "zahlungen_ä", ""]
)
def test_a_name_that_glue_does_not_have_is_refused_by_name(world: GlueWorld, name: str) -> None:
    with pytest.raises(CatalogRefused) as excinfo:
        world.catalog().listing_for(replace(a_source("x"), name=name))
    assert repr(name) in excinfo.value.problem


def test_a_foreign_table_without_any_parameters_is_nobodys(world: GlueWorld) -> None:
    source = a_source()
    place = world.place(source)
    world.client().create_database(DatabaseInput={"Name": place["DatabaseName"]})
    world.client().create_table(
        DatabaseName=place["DatabaseName"], TableInput={"Name": place["Name"]}
    )
    listing = world.catalog().find(source)
    assert listing is not None
    assert (listing.table_uuid, listing.snapshot, listing.columns) == ("", None, ())
