"""SeaweedFS on its own, and its tables as an owner and as a reader see them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.stack.seaweed import BUCKET, REGION, SeaweedServer
from tableflow_assets.stack.state import StackState

START_SECONDS = 60


@contextmanager
def running_seaweed(folder: Path) -> Iterator[SeaweedServer]:
    state = StackState.load(folder)
    state.make_folder()
    state.choose_ports_and_keys()
    state.save()
    server = SeaweedServer(state)
    server.prepare()
    with state.log_of(server.name).open("w") as log:
        process = subprocess.Popen(
            server.command(),
            cwd=server.folder,
            env=os.environ | server.environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(server, process)
        yield server
    finally:
        process.kill()  # its polite end takes 15 s, and nobody needs what it holds
        process.wait()


def _wait_for(server: SeaweedServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return server.check()
        except Exception:
            assert process.poll() is None, server.state.log_of(server.name).read_text()[-2000:]
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


@dataclass(frozen=True)
class Person:
    """Somebody with keys, right or wrong."""

    server: SeaweedServer
    access_key: str
    secret_key: str
    namespace: str = "shop"

    @property
    def connection(self) -> CatalogConnection:
        uri = self.server.catalog_address
        keys = {"client_id": self.access_key, "client_secret": self.secret_key}
        return CatalogConnection(uri, self.namespace, f"{uri}/v1/oauth/tokens", **keys)

    @property
    def storage(self) -> S3Connection:
        keys = (self.access_key, self.secret_key)
        return S3Connection(f"s3://{BUCKET}/", REGION, self.server.address, *keys, path_style=True)

    @cached_property
    def catalog(self) -> RestCatalog:
        return RestCatalog(self.connection, self.storage)

    def aws(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.server.address,
            region_name=REGION,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )


def owner_of(server: SeaweedServer) -> Person:
    return Person(server, server.state.access_key, server.state.secret_key)


def reader_of(server: SeaweedServer) -> Person:
    return Person(server, server.state.reader_access_key, server.state.reader_secret_key)
