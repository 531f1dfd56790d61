"""SeaweedFS: the object store (S3) and the Iceberg REST catalog with OAuth2, in one process."""

from __future__ import annotations

import json
import sysconfig
from functools import cached_property
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tableflow_assets.stack.seaweed_security import write_security
from tableflow_assets.stack.server import Server, http_client, write_private

if TYPE_CHECKING:
    import httpx

BUCKET = "lake"
REGION = "us-east-1"
PROBE_BUCKET = f"{BUCKET}-probe"  # a table bucket takes only tables
PROBE_KEY = "tableflow-probe"
# Rights on the store's objects, and on the catalog's tables (with the names of S3 Tables).
READER_ACTIONS = (
    "Read",
    "List",
    "s3tables:GetTableBucket",
    "s3tables:ListNamespaces",
    "s3tables:GetNamespace",
    "s3tables:ListTables",
    "s3tables:GetTable",
)
# The store logs every change of a directory's entry with the entry itself, before and after; the catalog
# keeps a table's whole metadata in one. That log is for replicas, which we have none of, and would be the
# largest part of the store within minutes: by default it stays for a week. The space is free again when the
# files that held it are rewritten.
MAINTENANCE = "lock; fs.log.purge -daysAgo=0; s3.clean.uploads -timeAgo=24h; unlock"
MAINTENANCE_MINUTES = 3


class SeaweedServer(Server):
    name = "seaweed"
    stop_seconds = 2  # it would drain for 15 s; acknowledged writes are safe without

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.state.ports['s3']}"

    @property
    def catalog_address(self) -> str:
        return f"http://127.0.0.1:{self.state.ports['iceberg']}"

    def prepare(self) -> None:
        super().prepare()
        (self.folder / "data").mkdir(exist_ok=True)
        write_security(self.folder)
        state = self.state
        owner = _identity("tableflow", state.access_key, state.secret_key, ["Admin"])
        only_here = [f"{action}:{BUCKET}" for action in READER_ACTIONS]
        reader = _identity("reader", state.reader_access_key, state.reader_secret_key, only_here)
        write_private(self.folder / "s3.json", json.dumps({"identities": [owner, reader]}))

    def command(self) -> list[str]:
        ports = self.state.ports
        options = {
            "dir": self.folder / "data",
            "ip": "127.0.0.1",
            "ip.bind": "127.0.0.1",
            "s3.config": self.folder / "s3.json",
            "s3.port": ports["s3"],
            "s3.port.grpc": ports["s3_grpc"],
            "s3.port.iceberg": ports["iceberg"],
            "s3.port.lance": 0,
            "master.port": ports["weed_master"],
            "master.port.grpc": ports["weed_master_grpc"],
            "volume.port": ports["weed_volume"],
            "volume.port.grpc": ports["weed_volume_grpc"],
            "filer.port": ports["weed_filer"],
            "filer.port.grpc": ports["weed_filer_grpc"],
            # Anybody on the machine could read and change everything there, without a key.
            "filer.disableHttp": "true",
            "disableHttp": "true",  # of the master, which hands out the right to write
            "volume.max": 50,
            "master.volumeSizeLimitMB": 256,
            "volume.preStopSeconds": 0,
            "master.vacuumIntervalSeconds": 60 * MAINTENANCE_MINUTES,
            "master.telemetry": "false",
        }
        weed = Path(sysconfig.get_path("scripts")) / "weed"
        return [str(weed), "server", "-s3", *(f"-{k}={v}" for k, v in options.items())]

    def environment(self) -> dict[str, str]:
        return {
            "WEED_MASTER_MAINTENANCE_SCRIPTS": MAINTENANCE,
            "WEED_MASTER_MAINTENANCE_SLEEP_MINUTES": str(MAINTENANCE_MINUTES),
        }

    def check(self) -> None:
        """Write and read an object, then see that the catalog answers for the table bucket."""
        from botocore.exceptions import ClientError

        self._ensure_table_bucket()
        s3 = self._s3
        try:
            s3.head_object(Bucket=PROBE_BUCKET, Key=PROBE_KEY)
        except ClientError:
            _ignore_existing(lambda: s3.create_bucket(Bucket=PROBE_BUCKET))
            s3.put_object(Bucket=PROBE_BUCKET, Key=PROBE_KEY, Body=b"works")
        body = s3.get_object(Bucket=PROBE_BUCKET, Key=PROBE_KEY)["Body"].read()
        if body != b"works":
            raise ValueError(f"the object store returned {body!r}")
        self._check_catalog()

    def look(self) -> None:
        """Read an object, and what the catalog keeps in the same store."""
        self._s3.get_object(Bucket=PROBE_BUCKET, Key=PROBE_KEY)["Body"].read()
        self._check_catalog()

    def _check_catalog(self) -> None:
        grant = {
            "grant_type": "client_credentials",
            "client_id": self.state.access_key,
            "client_secret": self.state.secret_key,
            "scope": "catalog",
        }
        base, http = f"{self.catalog_address}/v1", self._http
        token = http.post(f"{base}/oauth/tokens", data=grant).raise_for_status().json()
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        warehouse = {"warehouse": f"s3://{BUCKET}/"}
        http.get(f"{base}/config", params=warehouse, headers=headers).raise_for_status()
        http.get(f"{base}/{BUCKET}/namespaces", headers=headers).raise_for_status()

    @cached_property
    def _http(self) -> httpx.Client:
        return http_client()

    @cached_property
    def _s3(self) -> Any:
        return self._client("s3")

    def _ensure_table_bucket(self) -> None:
        tables = self._client("s3tables")
        _ignore_existing(lambda: tables.create_table_bucket(name=BUCKET))

    def _client(self, service: str) -> Any:
        import boto3
        from botocore.config import Config

        return boto3.client(
            service,
            endpoint_url=self.address,
            region_name=REGION,
            aws_access_key_id=self.state.access_key,
            aws_secret_access_key=self.state.secret_key,
            config=Config(
                connect_timeout=3,
                read_timeout=10,
                retries={"total_max_attempts": 1},
                s3={"addressing_style": "path"},
            ),
        )


def _identity(name: str, access_key: str, secret_key: str, actions: list[str]) -> dict[str, Any]:
    keys = {"accessKey": access_key, "secretKey": secret_key}
    return {"name": name, "credentials": [keys], "actions": actions}


def _ignore_existing(create: Any) -> None:
    from botocore.exceptions import ClientError

    try:
        create()
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.CONFLICT:
            raise
