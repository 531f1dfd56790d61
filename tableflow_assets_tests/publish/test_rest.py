"""Tables with rows, shown in another REST catalog: what its readers see is what the owner has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import LongType, StringType

from tableflow_assets.base.errors import CatalogAway, CatalogRefused
from tableflow_assets.lake.file_io import s3_properties
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.base import SourceTable
from tableflow_assets.publish.rest import rest as other_rest
from tableflow_assets.publish.rest.changes import CannotFollow, changes
from tableflow_assets.publish.rest.rest import OtherRestCatalog
from tableflow_assets.settings.rest import OtherRestSettings
from tableflow_assets_tests.publish.sources import a_source
from tableflow_assets_tests.publish.worlds.gate import Client, Gate
from tableflow_assets_tests.publish.worlds.rest import client_of, make_bucket, metadata_of
from tableflow_assets_tests.support.ports import closed_port

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})


class Shown:
    """A table of one namespace, and what another one shows of it."""

    def __init__(self, owner: RestCatalog, other: OtherRestCatalog, gate: Gate) -> None:
        self.other, self.gate, self._owner = other, gate, owner
        name = f"t_{uuid4().hex[:8]}"
        self.name = ("shown", name)
        owner.create_namespace_if_not_exists("own")
        self.table: Table = owner.create_table(("own", name), ROWS.schema)
        self.table.append(ROWS)

    def source(self) -> SourceTable:
        self.table.refresh()
        metadata = self.table.metadata
        return SourceTable(
            name=self.name[1],
            topic="payments",
            uuid=str(metadata.table_uuid),
            cluster_id="c",
            namespace="own",
            formats=("iceberg",),
            schema=metadata.schema(),
            location=metadata.location,
            metadata_location=self.table.metadata_location,
            snapshot=metadata.current_snapshot_id,
        )

    def publish(self) -> str:
        return publishing.publish(self.other, self.source, pauses=())

    def there(self) -> Table:
        return self._owner.load_table(self.name)

    def files(self, folder: str) -> set[str]:
        key = self.table.location().removeprefix("s3://lake/")
        answer = client_of(self.other._storage).list_objects_v2(
            Bucket="lake", Prefix=f"{key}/{folder}"
        )
        return {entry["Key"] for entry in answer.get("Contents", [])}


@pytest.fixture
def shown(
    rest_server: str, rest_storage: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shown]:
    make_bucket(rest_storage)
    monkeypatch.setenv("ME", "me")
    block = {"client_id": {"env": "ME"}, "client_secret": {"env": "ME"}, "namespace": "shown"}
    with Gate(rest_server, {"me": Client("me")}) as gate:
        settings = OtherRestSettings.model_validate({"type": "rest", "uri": gate.address} | block)
        other = OtherRestCatalog("other", settings, rest_storage)
        storage: dict[str, Any] = s3_properties(rest_storage)
        owner = RestCatalog("owner", uri=rest_server, auth={"type": "noop"}, **storage)
        yield Shown(owner, other, gate)


def append(table: Table) -> None:
    names = [field.name for field in table.schema().fields]
    values = {"id": [7, 8], "name": ["x", "y"], "more": [1, 2]}
    arrow_schema = table.schema().as_arrow()
    table.append(pa.table({name: values[name] for name in names}).cast(arrow_schema))


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("more", LongType(), doc="of something")


def widen(table: Table) -> None:
    with table.update_schema() as update:
        update.update_column("id", LongType())


def partition(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", BucketTransform(4), "id_bucket")


def sort(table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())


def tag(table: Table) -> None:
    newest = table.current_snapshot()
    assert newest is not None
    change = table.manage_snapshots().create_tag(newest.snapshot_id, "kept", 10**9)
    change.create_branch(newest.snapshot_id, "side").commit()


def untag(table: Table) -> None:
    table.manage_snapshots().remove_tag("kept").remove_branch("side").commit()


def roll_back(table: Table) -> None:
    first = table.history()[0].snapshot_id
    table.manage_snapshots().rollback_to_snapshot(first).commit()


def expire(table: Table) -> None:
    newest = table.current_snapshot()
    assert newest is not None
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    old = [snapshot_id for snapshot_id in ids if snapshot_id != newest.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()


def set_properties(table: Table) -> None:
    properties = {"write.parquet.compression-codec": "zstd", "tableflow.suspended": "why"}
    table.transaction().set_properties(properties).commit_transaction()


def unset_properties(table: Table) -> None:
    table.transaction().remove_properties("tableflow.suspended").commit_transaction()


EVERYTHING = (
    *(append, add_column, append, widen, append, partition, append, sort, append),
    *(tag, append, set_properties, untag, unset_properties, roll_back, append, expire, append),
)


def test_every_change_of_the_table_is_followed_by_one_commit(shown: Shown) -> None:
    assert shown.publish() == "created"
    for change in EVERYTHING:
        change(shown.table)
        writes = shown.gate.writes
        assert shown.publish() == "replaced", change.__name__
        assert shown.gate.writes == writes + 1
        same(shown, change)
        assert shown.publish() == "nothing"
    # Readers saw the table all the time: it was never dropped, and registered once.
    sent = [(method, path.rsplit("/", 1)[-1]) for method, path in shown.gate.requests]
    assert ("DELETE", shown.name[1]) not in sent
    assert sent.count(("POST", "register")) == 1


def same(shown: Shown, change: Callable[[Table], None]) -> None:
    ours, theirs = shown.table.metadata, shown.there().metadata
    for of in (
        *("table_uuid", "location", "format_version", "current_snapshot_id", "refs"),
        *("default_spec_id", "partition_specs", "default_sort_order_id", "sort_orders"),
    ):
        assert getattr(theirs, of) == getattr(ours, of), (change.__name__, of)
    assert theirs.schema() == ours.schema()
    assert {snapshot.snapshot_id for snapshot in theirs.snapshots} == {
        snapshot.snapshot_id for snapshot in ours.snapshots
    }
    assert shown.there().scan().to_arrow() == shown.table.scan().to_arrow()
    properties = {key: value for key, value in theirs.properties.items() if key in ours.properties}
    assert properties == ours.properties
    assert ("tableflow.suspended" in theirs.properties) == (
        "tableflow.suspended" in ours.properties
    )


def test_a_snapshot_is_read_with_the_schema_it_was_made_with(shown: Shown) -> None:
    shown.publish()
    with shown.there().update_schema() as update:  # theirs: it takes the number of our next schema
        update.add_column("smuggled", StringType())
    add_column(shown.table)
    append(shown.table)
    with_more = shown.table.current_snapshot()
    widen(shown.table)
    append(shown.table)
    shown.publish()
    assert with_more is not None
    there, at = shown.there(), with_more.snapshot_id
    assert there.scan(snapshot_id=at).to_arrow() == shown.table.scan(snapshot_id=at).to_arrow()
    assert there.scan(snapshot_id=at).to_arrow().column_names == ["id", "name", "more"]
    assert there.schema() == shown.table.schema()


def test_the_other_catalog_never_touches_the_tables_files(shown: Shown) -> None:
    shown.publish()
    for _ in range(3):
        append(shown.table)
        before = shown.files("metadata/")
        shown.publish()
        assert shown.files("metadata/") == before
    properties = shown.there().properties
    assert properties["gc.enabled"] == "false"
    assert properties["write.metadata.delete-after-commit.enabled"] == "false"
    assert "/_catalogs/other/" in shown.there().metadata_location
    files = shown.files("")
    assert publishing.unpublish(shown.other, shown.source())
    assert shown.files("") == files
    assert shown.table.scan().to_arrow().num_rows == 8
    deleted = [path for method, path in shown.gate.requests if method == "DELETE"]
    assert [path.partition("?")[2].lower() for path in deleted] == ["purgerequested=false"]


def test_its_metadata_files_do_not_pile_up(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(other_rest, "KEPT_VERSIONS", 2)
    shown.publish()
    owners = shown.files("metadata/")
    for at in range(6):
        shown.table.transaction().set_properties({"tableflow.at": str(at)}).commit_transaction()
        shown.publish()
    kept = shown.files("_catalogs/")
    assert len(kept) == 3
    assert shown.there().metadata_location.removeprefix("s3://lake/") in kept
    assert owners <= shown.files("metadata/")


def test_what_others_commit_there_is_taken_back_and_then_told(shown: Shown) -> None:
    shown.publish()
    append(shown.there())
    assert shown.there().scan().to_arrow().num_rows == 4
    assert shown.publish() == "replaced"
    assert shown.there().scan().to_arrow() == shown.table.scan().to_arrow()
    append(shown.table)
    with pytest.raises(CatalogRefused, match="somebody else has committed") as excinfo:
        shown.publish()
    assert "without purging" in excinfo.value.next_step
    shown.there().catalog.drop_table(shown.name)
    assert shown.publish() == "created"
    assert shown.there().scan().to_arrow() == shown.table.scan().to_arrow()


def test_a_property_that_the_catalog_adds_stays(shown: Shown) -> None:
    shown.publish()
    shown.there().transaction().set_properties({"nessie.commit": "1"}).commit_transaction()
    append(shown.table)
    shown.publish()
    assert shown.there().properties["nessie.commit"] == "1"


def test_metadata_that_is_gone_by_now_is_worth_another_try(shown: Shown) -> None:
    shown.publish()
    append(shown.table)
    source = shown.source()
    listing = shown.other.find(source)
    assert listing is not None
    key = source.metadata_location.removeprefix("s3://lake/")
    client_of(shown.other._storage).delete_object(Bucket="lake", Key=key)
    with pytest.raises(CatalogAway, match="own metadata"):
        shown.other.replace(source, shown.other.listing_for(source), listing)


@pytest.mark.parametrize("answer", ["a page", "nothing of this name"])
def test_an_address_that_is_no_catalog_is_refused(
    answer: str, rest_storage: S3Connection, httpserver_page: Callable[[int, bytes], str]
) -> None:
    status, body = (200, b"<html>hello</html>") if answer == "a page" else (404, b"")
    uri = httpserver_page(status, body)
    settings = OtherRestSettings.model_validate({"type": "rest", "uri": uri})
    with pytest.raises(CatalogRefused) as excinfo:
        OtherRestCatalog("other", settings, rest_storage).probe()
    assert "`uri`" in excinfo.value.next_step


@pytest.fixture
def httpserver_page() -> Iterator[Callable[[int, bytes], str]]:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    servers = []

    def serve(status: int, body: bytes) -> str:
        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_an_address_where_nobody_is_may_come_back(rest_storage: S3Connection) -> None:
    uri = f"http://127.0.0.1:{closed_port()}"
    settings = OtherRestSettings.model_validate({"type": "rest", "uri": uri})
    with pytest.raises(CatalogAway, match="does not answer"):
        OtherRestCatalog("other", settings, rest_storage).probe()
    with pytest.raises(httpx.ConnectError):
        httpx.get(uri)


def metadata(**changed: Any) -> Any:
    return TableMetadataUtil.parse_obj(metadata_of(a_source("t")) | changed)


SPEC = [{"name": "b", "transform": "bucket[4]", "source-id": 1, "field-id": 1000}]
ORDER = [{"transform": "identity", "source-id": 1, "direction": "asc", "null-order": "nulls-last"}]


def test_without_a_difference_nothing_is_sent() -> None:
    ours = metadata()
    assert changes(ours, ours, ours.properties) == ()


@pytest.mark.parametrize(
    ("theirs", "ours", "why"),
    [
        ({"format-version": 3, "next-row-id": 0}, {}, "format version 3"),
        (
            {"partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": SPEC}]},
            {"partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 1, "fields": []}]},
            "partition spec 1",
        ),
        (
            {},
            {"partition-specs": [{"spec-id": 0, "fields": []}, {"spec-id": 5, "fields": SPEC}]},
            "partition spec 5",
        ),
        (
            {"sort-orders": [{"order-id": 0, "fields": []}]},
            {"sort-orders": [{"order-id": 0, "fields": []}, {"order-id": 3, "fields": ORDER}]},
            "sort order 3",
        ),
    ],
)
def test_what_the_protocol_has_no_way_for_is_said(
    theirs: dict[str, Any], ours: dict[str, Any], why: str
) -> None:
    with pytest.raises(CannotFollow, match=why):
        changes(metadata(**theirs), metadata(**ours), {})
