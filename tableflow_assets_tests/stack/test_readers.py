"""Who may do what with the embedded catalog and its store: nobody, readers, the owner."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest
from botocore.exceptions import ClientError
from pyiceberg.table import Table

from tableflow_assets.base.errors import AccessRefused
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.stack.seaweed import BUCKET, SeaweedServer
from tableflow_assets.stack.state import StackState
from tableflow_assets_tests.support.seaweed import Person, owner_of, reader_of

ROWS = pa.table({"id": [1, 2, 3]})
Attempt = Callable[[Person, Table], Any]


@pytest.fixture
def orders(seaweed: SeaweedServer) -> Table:
    """Three rows, in a table of this test alone."""
    owner = owner_of(seaweed)
    owner.catalog.ensure_namespace()
    table = owner.catalog.iceberg.create_table(("shop", f"o_{uuid4().hex[:8]}"), ROWS.schema)
    table.append(ROWS)
    return table


def everything(seaweed: SeaweedServer) -> dict[str, str]:
    """All that lies in the store, and what it holds."""
    objects = owner_of(seaweed).aws("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    return {entry["Key"]: entry["ETag"] for entry in objects}


def test_a_reader_reads_through_pyiceberg_and_duckdb(seaweed: SeaweedServer, orders: Table) -> None:
    reader, name = reader_of(seaweed), orders.name()[-1]
    catalog = reader.catalog
    assert ("shop",) in catalog.iceberg.list_namespaces()
    assert ("shop", name) in catalog.iceberg.list_tables("shop")
    table = catalog.find(name)
    assert table is not None
    assert table.scan().to_arrow()["id"].to_pylist() == [1, 2, 3]
    with closing(connect_duckdb(reader.connection, reader.storage)) as duckdb:
        assert duckdb.execute(f'SELECT sum(id) FROM "{name}"').fetchone() == (6,)  # noqa: S608


def key_of(table: Table) -> str:
    return table.metadata_location.removeprefix(f"s3://{BUCKET}/")


def post(person: Person, path: str, body: dict[str, Any]) -> None:
    """To the catalog, past pyiceberg, which might not even ask."""
    grant = {
        "grant_type": "client_credentials",
        "client_id": person.access_key,
        "client_secret": person.secret_key,
    }
    base = f"{person.server.catalog_address}/v1"
    token = httpx.post(f"{base}/oauth/tokens", data=grant).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    httpx.post(f"{base}/{BUCKET}/{path}", json=body, headers=headers).raise_for_status()


def name_of(table: Table) -> dict[str, Any]:
    return {"namespace": ["shop"], "name": table.name()[-1]}


VIEW = {
    "name": "v",
    "schema": {"type": "struct", "schema-id": 0, "fields": []},
    "view-version": {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": 1_700_000_000_000,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["shop"],
    },
    "properties": {},
}
SET_PROPERTY = {"action": "set-properties", "updates": {"a": "b"}}

IN_THE_CATALOG: dict[str, Attempt] = {
    "create a namespace": lambda person, _: person.catalog.iceberg.create_namespace("of_a_reader"),
    "change a namespace": lambda person, _: person.catalog.iceberg.update_namespace_properties(
        "shop", updates={"a": "b"}
    ),
    "drop a namespace": lambda person, _: person.catalog.iceberg.drop_namespace("shop"),
    "create a table": lambda person, _: person.catalog.iceberg.create_table(
        "shop.mine", ROWS.schema
    ),
    "register a table": lambda person, table: person.catalog.iceberg.register_table(
        "shop.mine", table.metadata_location
    ),
    "change a table": lambda person, table: (
        person.catalog.iceberg.load_table(table.name())
        .transaction()
        .set_properties(a="b")
        .commit_transaction()
    ),
    "change tables together": lambda person, table: post(
        person,
        "transactions/commit",
        {"table-changes": [{"identifier": name_of(table), "updates": [SET_PROPERTY]}]},
    ),
    "append rows": lambda person, table: person.catalog.iceberg.load_table(table.name()).append(
        ROWS
    ),
    "rename a table": lambda person, table: post(
        person,
        "tables/rename",
        {"source": name_of(table), "destination": {"namespace": ["shop"], "name": "mine"}},
    ),
    "drop a table": lambda person, table: person.catalog.iceberg.drop_table(table.name()),
    "create a view": lambda person, _: post(person, "namespaces/shop/views", VIEW),
}
IN_THE_STORE: dict[str, Attempt] = {
    "put an object": lambda person, _: person.aws("s3").put_object(
        Bucket=BUCKET, Key="shop/o/data/x.parquet", Body=b"x"
    ),
    "replace an object": lambda person, table: person.aws("s3").put_object(
        Bucket=BUCKET, Key=key_of(table), Body=b"x"
    ),
    "copy an object": lambda person, table: person.aws("s3").copy_object(
        Bucket=BUCKET,
        Key="shop/o/data/copy.parquet",
        CopySource={"Bucket": BUCKET, "Key": key_of(table)},
    ),
    "upload in parts": lambda person, _: person.aws("s3").create_multipart_upload(
        Bucket=BUCKET, Key="shop/o/data/x.parquet"
    ),
    "delete an object": lambda person, table: person.aws("s3").delete_object(
        Bucket=BUCKET, Key=key_of(table)
    ),
    "make a bucket": lambda person, _: person.aws("s3").create_bucket(Bucket="of-a-reader"),
    "delete the bucket": lambda person, _: person.aws("s3").delete_bucket(Bucket=BUCKET),
    "open the bucket to all": lambda person, _: person.aws("s3").put_bucket_acl(
        Bucket=BUCKET, ACL="public-read-write"
    ),
    "write elsewhere": lambda person, _: person.aws("s3").put_object(
        Bucket=f"{BUCKET}-probe", Key="x", Body=b"x"
    ),
    "make a table bucket": lambda person, _: person.aws("s3tables").create_table_bucket(
        name="of-reader"
    ),
    "become somebody else": lambda person, _: person.aws("iam").create_access_key(
        UserName="tableflow"
    ),
}


@pytest.mark.parametrize("attempt", [*IN_THE_CATALOG, *IN_THE_STORE])
def test_a_reader_changes_nothing(seaweed: SeaweedServer, orders: Table, attempt: str) -> None:
    act = (IN_THE_CATALOG | IN_THE_STORE)[attempt]
    owner = owner_of(seaweed).catalog
    before, namespaces = everything(seaweed), owner.iceberg.list_namespaces()
    # However it is said: SeaweedFS also says that there is no such table.
    with pytest.raises(Exception) as excinfo:
        act(reader_of(seaweed), orders)
    assert not isinstance(excinfo.value, AssertionError | TypeError | AttributeError), excinfo.value
    assert everything(seaweed) == before
    assert owner.iceberg.load_table(orders.name()).metadata_location == orders.metadata_location
    assert owner.iceberg.list_namespaces() == namespaces
    assert ("shop", "mine") not in owner.iceberg.list_tables("shop")


def test_what_a_reader_may_not_do_the_owner_may(seaweed: SeaweedServer, orders: Table) -> None:
    """So none of the above fails for a reason of its own, as far as it can be undone again."""
    owner = owner_of(seaweed)
    for attempt in (
        *("change a namespace", "change a table", "change tables together", "append rows"),
        *("create a view", "rename a table"),
    ):
        IN_THE_CATALOG[attempt](owner, orders)
    owner.catalog.iceberg.drop_table("shop.mine")
    for attempt in ("put an object", "upload in parts", "write elsewhere", "replace an object"):
        IN_THE_STORE[attempt](owner, orders)
    for key in ("shop/o/data/x.parquet", key_of(orders)):
        owner.aws("s3").delete_object(Bucket=BUCKET, Key=key)


@pytest.mark.parametrize("whose", ["reader", "owner", "nobody"])
def test_with_a_wrong_secret_nothing_is_shown(
    seaweed: SeaweedServer, orders: Table, whose: str
) -> None:
    people = {"reader": reader_of, "owner": owner_of}
    name = people[whose](seaweed).access_key if whose in people else "nobody"
    stranger = Person(seaweed, name, "wrong")
    with pytest.raises(AccessRefused, match="credentials") as excinfo:
        stranger.catalog.find(orders.name()[-1])
    assert "wrong" not in str(excinfo.value)
    with pytest.raises(ClientError, match=r"Signature|AccessKey"):
        stranger.aws("s3").get_object(Bucket=BUCKET, Key=key_of(orders))


def test_without_credentials_nothing_is_shown(seaweed: SeaweedServer, orders: Table) -> None:
    nobody = replace(reader_of(seaweed).connection, client_id=None, client_secret=None)
    stranger = replace(reader_of(seaweed), access_key="", secret_key="")
    stranger.catalog.connection = nobody
    with pytest.raises(AccessRefused):
        stranger.catalog.find(orders.name()[-1])
    for address in (
        f"{seaweed.address}/{BUCKET}/{key_of(orders)}",
        f"{seaweed.address}/{BUCKET}?list-type=2",
        f"{seaweed.catalog_address}/v1/{BUCKET}/namespaces",
        f"http://127.0.0.1:{seaweed.state.ports['weed_filer']}/buckets/{BUCKET}/{key_of(orders)}",
    ):
        assert httpx.get(address).status_code in (401, 403, 404), address
    for address in (
        f"{seaweed.address}/{BUCKET}/shop/x",
        f"http://127.0.0.1:{seaweed.state.ports['weed_filer']}/buckets/{BUCKET}/x",
    ):
        assert not httpx.put(address, content=b"x").is_success, address


def test_a_stack_of_before_gets_keys_for_readers_at_its_next_start(tmp_path: Path) -> None:
    state = StackState(tmp_path, access_key="known", secret_key="known, too")
    state.save()
    file = tmp_path / "stack.json"
    older = json.loads(file.read_text())
    del older["reader_access_key"], older["reader_secret_key"]
    file.write_text(json.dumps(older))

    again = StackState.load(tmp_path)
    assert again.reader_secret_key == ""
    again.choose_ports_and_keys()
    again.save()
    server = SeaweedServer(StackState.load(tmp_path))
    server.prepare()
    assert (server.state.access_key, server.state.secret_key) == ("known", "known, too")
    assert len(server.state.reader_secret_key) == 40
    assert server.state.reader_secret_key not in repr(server.state)
    for private in (file, server.folder / "s3.json"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
        assert server.state.reader_secret_key in private.read_text()

    keys = (again.reader_access_key, again.reader_secret_key)
    again.choose_ports_and_keys()
    assert (again.reader_access_key, again.reader_secret_key) == keys
