"""A topic's own bucket and prefix: the table is made there, and does not move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StructType, TimestamptzType

from tableflow_assets.base.errors import LocationChanged, SettingsError
from tableflow_assets.lake import storage
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.file_io import s3_properties
from tableflow_assets.lake.storage import S3Connection, _s3_client
from tableflow_assets.settings.settings import Topic, load_settings
from tableflow_assets.table.create import create_table
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.location import (
    own_location,
    refuse_another_location,
    refused_location_named,
)
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.moto_aws import BUCKET, KEY, REGION, SECRET, Aws, running_aws

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "_kafka", StructType(NestedField(3, "timestamp", TimestamptzType()))),
)
ORIGIN = Entry("orders", "c", "t", {0: 0}, {0: 0}, {0: 0}, kind="origin")
OWN = "s3://finance/tables"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with running_aws(monkeypatch) as running:
        yield running
    _s3_client.cache_clear()
    storage._session.cache_clear()


@pytest.fixture
def catalog(aws: Aws) -> RestCatalog:
    """Ours, over a catalog in memory: where tables lie does not depend on who keeps their names."""
    place = {"LocationConstraint": REGION}
    aws.client("s3").create_bucket(Bucket="finance", CreateBucketConfiguration=place)
    lake = S3Connection(
        f"s3://{BUCKET}", REGION, aws.endpoint, KEY, SECRET, path_style=True, sse="s3"
    )
    rest_catalog = RestCatalog(CatalogConnection("http://nobody", "shop"), lake)
    rest_catalog.__dict__["iceberg"] = InMemoryCatalog(
        "memory", warehouse=lake.warehouse, **s3_properties(lake)
    )
    return rest_catalog


def made(catalog: RestCatalog, folder: Path, **options: Any) -> Any:
    return create_table(catalog, Topic(name="orders", **options), SCHEMA, ORIGIN, folder, {})


def test_the_table_is_made_in_its_own_bucket(
    aws: Aws, catalog: RestCatalog, tmp_path: Path
) -> None:
    table = made(catalog, tmp_path, location=f"{OWN}/")
    assert table.location() == "s3://finance/tables/shop/orders"
    assert aws.written("/finance/tables/shop/orders/metadata/")
    assert not aws.written(f"/{BUCKET}/")
    assert made(catalog, tmp_path, location=OWN).metadata.table_uuid == table.metadata.table_uuid


def test_topics_that_share_a_location_share_no_folder() -> None:
    first, second = Topic(name="a.b", location=OWN), Topic(name="a.c", location=OWN)
    places = {
        own_location(topic, "shop", table)
        for topic in (first, second)
        for table in (topic.table, topic.dead_letter_table)
    }
    assert len(places) == 4
    assert own_location(first, "shop", first.table) == "s3://finance/tables/shop/a_b"
    assert own_location(Topic(name="a.b"), "shop", "a_b") is None


def test_another_location_than_the_tables_is_refused(catalog: RestCatalog, tmp_path: Path) -> None:
    table = made(catalog, tmp_path, location=OWN)
    refuse_another_location(table, Topic(name="orders", location=f"{OWN}/"))
    for changed in ("s3://other/tables", None):
        with pytest.raises(LocationChanged) as caught:
            refuse_another_location(table, Topic(name="orders", location=changed))
        assert "s3://finance/tables/shop/orders" in caught.value.problem
        assert f"location: {OWN}" in caught.value.next_step
        assert "tableflow rebuild orders" in caught.value.next_step


def test_a_table_that_the_catalog_placed_may_be_named_where_it_is(
    catalog: RestCatalog, tmp_path: Path
) -> None:
    table = made(catalog, tmp_path)
    refuse_another_location(table, Topic(name="orders"))
    with pytest.raises(LocationChanged, match="leave `location` out"):
        refuse_another_location(table, Topic(name="orders", location=OWN))
    refuse_another_location(table, Topic(name="orders", location=f"s3://{BUCKET}"))


def test_what_a_catalog_says_of_a_place_that_it_refuses_is_told() -> None:
    from pyiceberg.exceptions import BadRequestError

    message = "does not make a table at s3://x/y: outside"
    with pytest.raises(SettingsError, match=message), refused_location_named("s3://x/y"):
        raise BadRequestError("outside of the allowed locations")
    with pytest.raises(BadRequestError), refused_location_named(None):
        raise BadRequestError("something else")


@pytest.mark.parametrize(
    "given",
    ["https://b/p", "s3://b", "s3://bucket/it's", "s3://bucket/a b", "s3://bucket/`", "/folder"],
)
def test_a_location_is_a_plain_one(tmp_path: Path, given: str) -> None:
    file = tmp_path / "tableflow.yaml"
    file.write_text(f'catalog: {{uri: "http://c"}}\ntopics: {{t: {{location: "{given}"}}}}\n')
    with pytest.raises(SettingsError, match=r"topics\.t\.location: must be s3://bucket/prefix"):
        load_settings(file)


@pytest.mark.parametrize("place", ["defaults: {%s}", "topics: {t: {%s}}", 'topics: {"*": {%s}}'])
def test_the_embedded_catalog_has_one_bucket(tmp_path: Path, place: str) -> None:
    file = tmp_path / "tableflow.yaml"
    file.write_text(place % f"location: '{OWN}'")
    with pytest.raises(SettingsError, match="the embedded catalog keeps tables in its own bucket"):
        load_settings(file)


def test_the_embedded_catalog_itself_refuses_another_bucket(
    tableflow: Tableflow, tmp_path: Path
) -> None:
    topic = Topic(name="a-place-of-its-own", location=OWN)
    with pytest.raises(SettingsError, match="does not make a table at s3://finance"):
        create_table(tableflow.catalog, topic, SCHEMA, ORIGIN, tmp_path, {})
