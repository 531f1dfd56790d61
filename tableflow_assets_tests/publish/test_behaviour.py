"""What every catalog does alike: one suite over all of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import pytest

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged, NotOurTable
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable
from tableflow_assets_tests.publish.sources import (
    a_source,
    after_a_commit,
    made_anew,
    with_more_columns,
)
from tableflow_assets_tests.publish.worlds.world import CatalogWorld, Tampered

LONGEST_CALL_SECONDS = 30  # of a catalog that does not answer, all tries together


def find(catalog: PublishingCatalog, source: SourceTable) -> Listing:
    listing = catalog.find(source)
    assert listing is not None
    return listing


def test_what_was_published_is_listed_as_it_should_be(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    assert catalog.find(source) is None
    assert publishing.publish(catalog, lambda: source) == "created"
    listing = find(world.catalog(), source)
    assert listing == catalog.listing_for(source)
    assert (listing.table_uuid, listing.topic) == (source.uuid, source.topic)
    assert [column.name.lower() for column in listing.columns] == [
        "id",
        "amount",
        "lines",
        "paid_at",
    ]


def test_publishing_again_changes_nothing(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    writes = world.writes()
    assert publishing.publish(catalog, lambda: source) == "nothing"
    assert world.writes() == writes


def test_a_commit_and_new_columns_are_followed(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    for newer in (after_a_commit(source), with_more_columns(source)):
        publishing.publish(catalog, lambda newer=newer: newer)  # type: ignore[misc]
        assert find(catalog, newer) == catalog.listing_for(newer)
        assert publishing.publish(catalog, lambda newer=newer: newer) == "nothing"  # type: ignore[misc]
    assert "method" in [column.name.lower() for column in find(catalog, source).columns]


def test_a_change_of_what_has_changed_since_is_refused(world: CatalogWorld) -> None:
    if not world.has_lock:
        pytest.skip("this catalog has no lock; see its page in docs/")
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    listing = find(catalog, source)
    newest = after_a_commit(after_a_commit(source))
    publishing.publish(world.catalog(), lambda: newest)
    older = after_a_commit(source)
    with pytest.raises(ListingChanged):
        catalog.replace(older, catalog.listing_for(older), listing)
    assert find(catalog, newest) == catalog.listing_for(newest)


def test_of_two_that_create_at_once_one_is_told(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    with pytest.raises(ListingChanged):
        catalog.create(source, catalog.listing_for(source))


def test_a_table_that_is_not_ours_is_never_touched(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    world.make_foreign_table(source)
    for act in (publishing.publish, publishing.republish):
        with pytest.raises(NotOurTable, match=catalog.listing_for(source).name.split(".")[-1]):
            act(catalog, lambda: source)
    with pytest.raises(NotOurTable):
        publishing.unpublish(catalog, source)
    assert world.foreign_table_is_untouched(source)


def test_an_earlier_table_of_the_topic_is_replaced_only_when_asked(world: CatalogWorld) -> None:
    catalog, earlier = world.catalog(), a_source()
    publishing.publish(catalog, lambda: earlier)
    source = made_anew(earlier)
    with pytest.raises(NotOurTable, match="--repair"):
        publishing.publish(catalog, lambda: source)
    assert find(catalog, earlier).table_uuid == earlier.uuid
    publishing.republish(catalog, lambda: source)
    assert find(catalog, source) == catalog.listing_for(source)


@pytest.mark.parametrize("what", get_args(Tampered))
def test_what_somebody_changed_is_seen_and_mended(world: CatalogWorld, what: Tampered) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    if what not in world.can_tamper:
        pytest.skip(f"this catalog does not keep the {what} by itself")
    world.tamper(source, what)
    different = publishing.differences(find(catalog, source), catalog.listing_for(source))
    assert what in {difference.what for difference in different}
    publishing.publish(catalog, lambda: source)
    assert find(catalog, source) == catalog.listing_for(source)


def test_what_is_taken_out_is_gone_and_can_come_back(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    assert publishing.unpublish(catalog, source)
    assert catalog.find(source) is None
    assert not publishing.unpublish(catalog, source)
    assert publishing.publish(catalog, lambda: source) == "created"


def test_wrong_credentials_are_refused_with_what_to_do(world: CatalogWorld) -> None:
    catalog, source = world.with_wrong_credentials(), a_source()
    with pytest.raises(CatalogRefused) as excinfo:
        catalog.probe()
    assert excinfo.value.next_step
    with pytest.raises(CatalogRefused):
        publishing.publish(catalog, lambda: source)
    assert world.catalog().find(source) is None


def test_without_the_right_to_create_the_error_says_what_to_grant(world: CatalogWorld) -> None:
    catalog, source = world.without_right_to_create(), a_source()
    with pytest.raises(CatalogRefused) as excinfo:
        publishing.publish(catalog, lambda: source)
    assert excinfo.value.next_step
    assert world.catalog().find(source) is None


def test_a_catalog_that_is_down_is_away_and_follows_when_it_is_back(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    publishing.publish(catalog, lambda: source)
    newer = after_a_commit(with_more_columns(source))
    begun = time.monotonic()
    with world.is_down(), pytest.raises(CatalogAway):
        publishing.publish(catalog, lambda: newer, pauses=(0.1,))
    with world.is_gone(), pytest.raises(CatalogAway):
        publishing.publish(catalog, lambda: newer, pauses=(0.1,))
    assert time.monotonic() - begun < LONGEST_CALL_SECONDS
    writes = world.writes()
    publishing.publish(catalog, lambda: newer)
    assert find(catalog, newer) == catalog.listing_for(newer)
    assert publishing.publish(catalog, lambda: newer) == "nothing"
    assert world.writes() > writes


def test_a_name_that_is_too_long_is_refused_by_name(world: CatalogWorld) -> None:
    source = replace(a_source(), name="x" * 300)
    with pytest.raises(CatalogRefused, match=r"x{20}"):
        publishing.publish(world.catalog(), lambda: source)


def test_hostile_names_stay_names(world: CatalogWorld) -> None:
    catalog, source = world.catalog(), a_source()
    hostile = "x'; DROP TABLE t; --\"`"
    described = replace(source, topic=hostile, description=hostile)
    publishing.publish(catalog, lambda: described)
    assert find(catalog, described).topic == hostile
    assert find(catalog, described) == catalog.listing_for(described)


@pytest.fixture(
    params=[
        "glue",
        "unity_databricks",
        "unity_open_source",
        "snowflake",
        pytest.param("rest", marks=pytest.mark.stack),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[CatalogWorld]:
    yield request.getfixturevalue(f"{request.param}_world")
