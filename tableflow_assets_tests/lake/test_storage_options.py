"""One `warehouse` block, and every client that writes with it: boto3, pyiceberg's, delta-rs, Spark."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from deltalake import write_deltalake
from pyarrow.fs import FileSelector
from pyiceberg.catalog.memory import InMemoryCatalog

from tableflow_assets.base import masking, secrets
from tableflow_assets.base.errors import AccessRefused, ServerUnreachable
from tableflow_assets.lake import storage
from tableflow_assets.lake.arrow_io import StorageFileIO
from tableflow_assets.lake.file_io import arrow_store, s3_properties
from tableflow_assets.lake.storage import S3Connection, _s3_client, session_of, with_keys
from tableflow_assets.table.delta.checkpoint import storage_options, write_checkpoint
from tableflow_assets.table.delta.store import store_at
from tableflow_assets_tests.support.moto_aws import BUCKET, KEY, REGION, SECRET, Aws, running_aws

ROLE = "arn:aws:iam::123456789012:role/lake-writer"
KMS = "arn:aws:kms:eu-west-1:123456789012:key/0f8c0d3e-0000-4000-8000-000000000000"
ROWS = pa.table({"id": [1, 2, 3]})


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing that other tests have read or connected to, and nothing left for them."""
    monkeypatch.setattr(masking, "_secrets", masking._Secrets())
    yield
    secrets.forget()
    _s3_client.cache_clear()
    storage._session.cache_clear()


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    with running_aws(monkeypatch) as running:
        yield running


@pytest.fixture
def lake(aws: Aws) -> S3Connection:
    return S3Connection(
        warehouse=f"s3://{BUCKET}/",
        region=REGION,
        endpoint=aws.endpoint,
        path_style=True,
        access_key=KEY,
        secret_key=SECRET,
    )


def iceberg_table(lake: S3Connection, name: str = "t") -> Any:
    """With pyiceberg's own catalog, which writes metadata as well; its files by our properties."""
    catalog = InMemoryCatalog("test", warehouse=f"s3://{BUCKET}/wh", **s3_properties(lake))
    catalog.create_namespace("ns")
    return catalog.create_table(f"ns.{name}", ROWS.schema)


# --- encryption -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sse", "kms_key", "algorithm"),
    [("s3", None, "AES256"), ("kms", KMS, "aws:kms"), ("kms", None, "aws:kms")],
)
def test_every_object_that_anybody_writes_asks_to_be_encrypted(
    aws: Aws, lake: S3Connection, sse: Any, kms_key: str | None, algorithm: str
) -> None:
    lake = replace(lake, sse=sse, kms_key=kms_key)
    store = store_at(f"s3://{BUCKET}/boto3", lake)
    store.put("a", b"1")
    assert store.put_if_absent("b", b"2")
    iceberg_table(lake).append(ROWS)
    root = f"s3://{BUCKET}/delta"
    write_deltalake(root, ROWS, storage_options=storage_options(lake, root))
    assert write_checkpoint(root, lake)
    for part in ("/boto3/a", "/boto3/b", "/wh/", "/delta/", ".checkpoint.parquet"):
        assert aws.written(part), part
    for request in aws.written(f"/{BUCKET}/"):
        assert request.headers.get("x-amz-server-side-encryption") == algorithm, request.path
        key = request.headers.get("x-amz-server-side-encryption-aws-kms-key-id")
        assert key == kms_key, request.path


def test_what_is_written_encrypted_is_read_again(lake: S3Connection) -> None:
    table = iceberg_table(replace(lake, sse="kms", kms_key=KMS))
    table.append(ROWS)
    table.append(ROWS)
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 3, 3]
    files = arrow_store(table).get_file_info(FileSelector(f"{BUCKET}/wh", recursive=True))
    assert sum(file.path.endswith(".parquet") for file in files) == 2
    copy = pickle.loads(pickle.dumps(table.io))  # noqa: S301  (our own)
    copy.new_output(f"s3://{BUCKET}/wh/a b#c").create().close()
    assert copy.new_input(f"s3://{BUCKET}/wh/a b#c").exists()
    with pytest.raises(FileExistsError):
        copy.new_output(f"s3://{BUCKET}/wh/a b#c").create()


def test_without_encryption_and_role_pyiceberg_is_left_alone(aws: Aws, lake: S3Connection) -> None:
    table = iceberg_table(lake)
    table.append(ROWS)
    assert not isinstance(table.io.arrow, StorageFileIO)
    store_at(f"s3://{BUCKET}/boto3", lake).put("a", b"1")
    for request in aws.written(f"/{BUCKET}/"):
        assert "x-amz-server-side-encryption" not in request.headers, request.path


# --- roles ------------------------------------------------------------------------------------


@pytest.fixture
def by_role(lake: S3Connection) -> S3Connection:
    return replace(lake, role_arn=ROLE, external_id="customer-7")


def test_everybody_works_as_the_role_which_is_assumed_once(aws: Aws, by_role: S3Connection) -> None:
    store = store_at(f"s3://{BUCKET}/boto3", by_role)
    assert store.put_if_absent("a", b"1")
    table = iceberg_table(by_role)
    table.append(ROWS)
    assert table.scan().to_arrow().num_rows == 3
    root = f"s3://{BUCKET}/delta"
    write_deltalake(root, ROWS, storage_options=storage_options(by_role, root))
    (call,) = aws.assumed()
    assert (call["RoleArn"], call["ExternalId"]) == (ROLE, "customer-7")
    keys = with_keys(by_role)
    assert (keys.role_arn, keys.external_id) == (None, None)
    requests = [request for request in aws.requests if request.path.startswith(f"/{BUCKET}/")]
    assert {"PUT", "GET"} <= {request.method for request in requests}
    for request in requests:
        assert request.headers["x-amz-security-token"] == keys.session_token, request.path
        assert f"Credential={keys.access_key}/" in request.headers["authorization"]


def test_keys_of_a_role_are_renewed_before_they_end(aws: Aws, by_role: S3Connection) -> None:
    store, table = store_at(f"s3://{BUCKET}/boto3", by_role), iceberg_table(by_role)
    store.put("a", b"1")
    table.append(ROWS)
    first = with_keys(by_role)
    assert with_keys(by_role) == first
    assert len(aws.assumed()) == 1
    # As if the hour that they last were almost over.
    keys = session_of(by_role).get_credentials()
    keys._expiry_time = datetime.now(UTC) + timedelta(minutes=5)
    aws.requests.clear()
    # The same objects, which were made with the old keys.
    store.put("b", b"2")
    table.append(ROWS)
    second = with_keys(by_role)
    assert second.session_token != first.session_token
    assert aws.assumed()
    for request in aws.written(f"/{BUCKET}/"):
        assert request.headers["x-amz-security-token"] != first.session_token, request.path
    assert masking.masked(f"{first.session_token} {second.secret_key}") == "*** ***"


def test_session_keys_are_masked_from_their_first_use(aws: Aws, by_role: S3Connection) -> None:
    store_at(f"s3://{BUCKET}/boto3", by_role).put("a", b"1")
    (written,) = aws.written("/boto3/a")
    assert masking.masked(written.headers["x-amz-security-token"]) == "***"


def test_a_role_that_may_not_be_assumed_says_what_to_allow(
    by_role: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BaseClient._make_api_call

    def refuse(self: Any, operation: str, arguments: Any) -> Any:
        if operation == "AssumeRole":
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, operation)
        return original(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)
    with pytest.raises(AccessRefused) as caught:
        store_at(f"s3://{BUCKET}/boto3", by_role).put("a", b"1")
    assert f"sts:AssumeRole on {ROLE}" in caught.value.next_step
    assert "sts:ExternalId" in caught.value.next_step
    assert "customer-7" not in str(caught.value) + repr(by_role)


def test_sts_that_is_away_is_named(by_role: S3Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1")
    with pytest.raises(ServerUnreachable, match="AWS STS"):
        with_keys(by_role)


def test_without_keys_those_of_the_machine_are_found(
    aws: Aws, lake: S3Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of-the-machine")
    machine = replace(lake, access_key=None, secret_key=None)
    keys = with_keys(machine)
    assert (keys.access_key, keys.secret_key) == (KEY, SECRET)
    assert keys.session_token == "of-the-machine"
    root = f"s3://{BUCKET}/delta"
    write_deltalake(root, ROWS, storage_options=storage_options(machine, root))
    store_at(f"s3://{BUCKET}/boto3", machine).put("a", b"1")
    for part in ("/delta/", "/boto3/"):
        for request in aws.written(part):
            assert request.headers["x-amz-security-token"] == "of-the-machine", request.path


# --- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("endpoint", "path_style", "in_host"),
    [
        (None, False, True),
        ("https://store.example", False, True),
        ("https://store.example", True, False),
        ("http://127.0.0.1:9000", False, False),
        ("http://[::1]:9000", False, False),
        ("http://localhost:9000", False, False),
    ],
)
def test_a_bucket_is_in_the_hosts_name_unless_it_cannot_be(
    endpoint: str | None, path_style: bool, in_host: bool
) -> None:
    lake = S3Connection(
        "s3://lake/", REGION, endpoint, access_key="k", secret_key="s", path_style=path_style
    )
    assert lake.has_bucket_in_host is in_host
    options = storage_options(lake, "s3://lake/t")
    is_own_host = in_host and endpoint is not None
    assert options["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == str(is_own_host).lower()
    if is_own_host:
        assert options["AWS_ENDPOINT_URL"] == "https://lake.store.example"
    else:
        assert options.get("AWS_ENDPOINT_URL") == endpoint
    virtual = s3_properties(lake).get("s3.force-virtual-addressing")
    assert virtual == ("true" if is_own_host else None)
