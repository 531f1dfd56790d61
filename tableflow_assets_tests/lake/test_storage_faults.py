"""What object stores answer, in the words of each client: named, with what to change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyspark.errors import PySparkException

from tableflow_assets.base.errors import AccessRefused, ServerUnreachable
from tableflow_assets.lake import storage
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.file_io import s3_properties
from tableflow_assets.lake.storage import S3Connection, _s3_client
from tableflow_assets.lake.storage_faults import storage_fault
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.spark_errors import named_spark_errors

ELSEWHERE = "eu-north-1"
WRONG = (
    b'<?xml version="1.0"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>The authorization'
    b" header is malformed; the region 'us-east-1' is wrong; expecting 'eu-north-1'</Message>"
    b"<Region>eu-north-1</Region></Error>"
)
MOVED = (
    b'<?xml version="1.0"?><Error><Code>PermanentRedirect</Code><Message>The bucket you are attempting'
    b" to access must be addressed using the specified endpoint.</Message></Error>"
)
DENIED = b'<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>no</Message></Error>'
BAD_KEY = (
    b'<?xml version="1.0"?><Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>'
)


@contextmanager
def store_that_answers(status: int, body: bytes, **headers: str) -> Iterator[S3Connection]:
    class Answer(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_POST = _answer

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield S3Connection(
            "s3://lake/",
            "us-east-1",
            f"http://127.0.0.1:{server.server_port}",
            access_key="key",
            secret_key="secret",
            path_style=True,
        )
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        _s3_client.cache_clear()
        storage._session.cache_clear()


@pytest.mark.parametrize(
    ("status", "body", "headers"),
    [
        (301, MOVED, {"x_amz_bucket_region": ELSEWHERE}),
        (400, WRONG, {}),
        (400, WRONG, {"x_amz_bucket_region": ELSEWHERE}),
    ],
)
def test_a_bucket_in_another_region_is_named_with_it(
    status: int, body: bytes, headers: dict[str, str]
) -> None:
    with store_that_answers(status, body, **headers) as lake:
        with pytest.raises(AccessRefused) as by_boto3:
            store_at("s3://lake/t", lake).put("a", b"1")
        catalog = RestCatalog(CatalogConnection(str(lake.endpoint), "ns"), lake)
        files = PyArrowFileIO(s3_properties(lake))

        def write() -> None:
            with files.new_output("s3://lake/t/a").create(overwrite=True) as out:
                out.write(b"1")

        with pytest.raises(AccessRefused) as by_arrow:
            catalog.ask(write)
    assert f"Set `region: {ELSEWHERE}`" in by_boto3.value.next_step
    assert "the bucket is in" in by_arrow.value.problem
    assert "under `warehouse:` in tableflow.yaml" in by_arrow.value.next_step


def test_the_region_is_told_in_the_words_of_other_clients() -> None:
    arrow = (
        "AWS Error UNKNOWN (HTTP status 301) during CompleteMultipartUpload: Looks like the configured"
        " region is 'us-east-1' while the bucket is located in 'eu-north-1'."
    )
    spark = (
        "software.amazon.awssdk.services.s3.model.S3Exception: The bucket is in this region:"
        " eu-north-1. Please use this region to retry the request (Service: S3, Status Code: 301)"
    )
    for text in (arrow, spark):
        fault = storage_fault(text, "AWS", "us-east-1")
        assert fault is not None
        assert f"Set `region: {ELSEWHERE}`" in fault.next_step
    with pytest.raises(AccessRefused, match=f"region: {ELSEWHERE}"), named_spark_errors("`t`"):
        raise PySparkException(spark)
    delta = "Generic S3 error: Received redirect without LOCATION, this normally indicates an incorrectly"
    fault = storage_fault(delta, "AWS", "us-east-1")
    assert fault is not None
    assert "the bucket is in another region" in fault.problem


@pytest.mark.parametrize(
    ("status", "body", "step"),
    [(403, DENIED, "Allow s3:GetObject"), (403, BAD_KEY, "Correct `access_key`")],
)
def test_a_refusal_says_what_to_grant_or_change(status: int, body: bytes, step: str) -> None:
    with store_that_answers(status, body) as lake, pytest.raises(AccessRefused) as caught:
        store_at("s3://lake/t", lake).put("a", b"1")
    assert step in caught.value.next_step
    assert str(lake.endpoint) in caught.value.problem


def test_a_store_that_is_only_ill_is_unreachable_and_not_refusing() -> None:
    with store_that_answers(503, b"") as lake, pytest.raises(ServerUnreachable) as caught:
        store_at("s3://lake/t", lake).read("a")
    assert not isinstance(caught.value, AccessRefused)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("S3Exception: The provided token has expired (ExpiredToken)", "New ones are requested"),
        ("NoSuchBucket: The specified bucket does not exist", "Create the bucket"),
        ("AccessDenied: not authorized to perform: kms:GenerateDataKey", "kms:GenerateDataKey"),
        ("java.lang.OutOfMemoryError", None),
        ("S3 Status Code: 503", None),
    ],
)
def test_other_answers(text: str, step: str | None) -> None:
    fault = storage_fault(text, "AWS", "us-east-1")
    assert (fault is None) == (step is None)
    if fault and step:
        assert step in fault.next_step
