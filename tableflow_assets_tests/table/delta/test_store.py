"""Put-if-absent and listing, on S3 and in a folder: the same promises."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from tableflow_assets.base.errors import ServerUnreachable, StoreIgnoresConditions, TableflowError
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.failing_store import failing_store

NOWHERE = S3Connection(
    warehouse="s3://lake/",
    endpoint="http://127.0.0.1:1",
    region="us-east-1",
    path_style=True,
    access_key="a",
    secret_key="b",
)


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.stack), "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "folder":
        yield store_at(str(tmp_path / "a table"), NOWHERE)
        return
    storage = request.getfixturevalue("tableflow").catalog.storage
    where = f"{storage.warehouse.rstrip('/')}/tableflow/store_{uuid.uuid4().hex[:8]}/_data/x"
    opened_store = store_at(where, storage)
    yield opened_store
    opened_store.delete(opened_store.sizes())


def test_one_of_eight_writers_wins_and_the_others_know(store: Store) -> None:
    def write(number: int) -> bool:
        return store.put_if_absent("_delta_log/1.json", f"by {number}".encode() * 1000)

    with ThreadPoolExecutor(8) as writers:
        won = list(writers.map(write, range(8)))
    assert won.count(True) == 1
    assert store.read("_delta_log/1.json") == f"by {won.index(True)}".encode() * 1000
    assert store.names("_delta_log") == ["_delta_log/1.json"]


def test_what_is_there_is_listed_read_replaced_and_deleted(store: Store) -> None:
    names = ["_delta_log/2.json", "_delta_log/10.json", "p=1/a b%20c.parquet"]
    for name in names:
        store.put(name, b"old")
    store.put(names[0], b"newer")
    assert store.read(names[0]) == b"newer"
    assert store.names("_delta_log") == ["_delta_log/10.json", "_delta_log/2.json"]
    assert store.names("_delta_log", after="10.json") == ["_delta_log/2.json"]
    assert store.sizes() == {names[0]: 5, names[1]: 3, names[2]: 3}
    store.delete([names[0], "_delta_log/never.json"])
    assert store.read(names[0]) is None
    assert store.names("nothing") == []


def test_an_own_write_whose_answer_was_lost_counts_as_won(tableflow: Tableflow) -> None:
    """The client tries again after a 503, and meets what its first try has written."""
    storage = tableflow.catalog.storage
    where = f"{storage.warehouse.rstrip('/')}/tableflow/store_{uuid.uuid4().hex[:8]}/_data/x"
    store_at(where, storage).put("1.json", b"ours")
    assert store_at(where, storage).put_if_absent("1.json", b"ours")
    assert not store_at(where, storage).put_if_absent("1.json", b"theirs")
    store_at(where, storage).delete(["1.json"])


def test_a_store_that_is_away_or_refuses_is_named(tableflow: Tableflow) -> None:
    with pytest.raises(ServerUnreachable, match=r"object store at http://127\.0\.0\.1:1"):
        store_at("s3://lake/x", NOWHERE).read("a")
    storage = tableflow.catalog.storage
    with failing_store(str(storage.endpoint), lambda path: "refused" in path) as door:
        behind = store_at(f"{storage.warehouse}refused", replace(storage, endpoint=door))
        with pytest.raises(ServerUnreachable, match="503"):
            behind.put_if_absent("a", b"")


class Forgetful(BaseHTTPRequestHandler):
    """A store that takes every condition and keeps none."""

    protocol_version = "HTTP/1.1"
    objects: ClassVar[dict[str, bytes]] = {}

    def do_PUT(self) -> None:
        self.objects[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer()

    def do_POST(self) -> None:
        """Deletions, of which there are several in one request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b"<DeleteResult/>")

    def _answer(self, body: bytes = b"") -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_store_that_ignores_the_condition_is_refused() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Forgetful) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        store = store_at("s3://lake/t", replace(NOWHERE, endpoint=endpoint))
        for _ in range(2):
            with pytest.raises(StoreIgnoresConditions, match=f"{endpoint} ignores"):
                store.put_if_absent("_delta_log/0.json", b"version 0")
        server.shutdown()
    assert not [path for path in Forgetful.objects if path.endswith("0.json")]


def test_a_store_is_tried_once_for_all_tables(tableflow: Tableflow) -> None:
    storage, requests = tableflow.catalog.storage, list[str]()
    base = f"{storage.warehouse.rstrip('/')}/tableflow/store_{uuid.uuid4().hex[:8]}"
    with failing_store(str(storage.endpoint), on_request=requests.append) as door:
        for table in ("a", "b"):
            store = store_at(f"{base}/_data/{table}", replace(storage, endpoint=door))
            assert store.put_if_absent("_delta_log/0.json", b"version 0")
            assert store.names("_delta_log") == ["_delta_log/0.json"]
            store.delete(["_delta_log/0.json"])
    assert len({path for path in requests if "probe" in path}) == 1


def test_an_unknown_kind_of_store_is_refused_with_the_way_out() -> None:
    with pytest.raises(TableflowError, match=r"formats: \[iceberg\]"):
        store_at("gs://lake/x", NOWHERE)
