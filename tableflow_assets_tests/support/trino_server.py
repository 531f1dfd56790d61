"""A Trino server over the catalog, for tests that speak Athena's SQL; only where one is given.

TABLEFLOW_TRINO=<folder of an unpacked io.trino:trino-server> and TABLEFLOW_TRINO_JAVA=<its `java`,
24 or newer; else $JAVA_HOME, else the `java` of the PATH>.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tableflow_assets.lake.connection import CatalogConnection
from tableflow_assets.lake.storage import S3Connection
from tableflow_assets.query.snippets.access import Access
from tableflow_assets.query.snippets.trino import snippet
from tableflow_assets_tests.support.ports import closed_port

JAVA_NEEDED = 24
START_SECONDS = 180


class Trino:
    """Asks over HTTP, as Trino's own clients do."""

    def __init__(self, address: str) -> None:
        self.address, self._stats = address, {"physicalInputBytes": 0}

    def ask(self, sql: str) -> list[list[Any]]:
        answer = self._call("POST", f"{self.address}/v1/statement", content=sql)
        rows: list[list[Any]] = []
        while True:
            assert "error" not in answer, f"{sql}: {answer['error'].get('message')}"
            rows += answer.get("data", [])
            self._stats = answer["stats"]
            if "nextUri" not in answer:
                return rows
            answer = self._call("GET", answer["nextUri"])

    def bytes_scanned(self) -> int:
        """By the last statement: what Athena shows as "Data scanned"."""
        return int(self._stats["physicalInputBytes"])

    def is_ready(self) -> bool:
        """It answers some seconds before it knows of a node that could run a query."""
        try:
            starting = httpx.get(f"{self.address}/v1/info").json()["starting"]
            return not starting and bool(self.ask("SELECT * FROM system.runtime.nodes"))
        except (httpx.HTTPError, ValueError, KeyError, AssertionError):
            return False

    def _call(self, method: str, url: str, **options: Any) -> dict[str, Any]:
        headers = {"X-Trino-User": "test", "X-Trino-Time-Zone": "UTC"}
        response = httpx.request(method, url, headers=headers, timeout=60, **options)
        response.raise_for_status()
        answer: dict[str, Any] = response.json()
        return answer


@contextmanager
def running_trino(
    catalog: CatalogConnection,
    storage: S3Connection,
    folder: Path,
    more: Mapping[str, Mapping[str, str]] | None = None,
) -> Iterator[Trino]:
    """Over the catalog, as `lake`. ``more``: other catalogs by name, with their properties."""
    home = os.environ.get("TABLEFLOW_TRINO")
    if not home:
        pytest.skip("no Trino: set TABLEFLOW_TRINO to the folder of a trino-server")
    java, port = _java(), closed_port()
    _configure(folder, port, catalog, storage)
    for name, properties in (more or {}).items():
        _write(folder / "catalog" / f"{name}.properties", properties)
    with (folder / "trino.log").open("w") as log:
        server = subprocess.Popen(
            [
                java,
                "-Xmx2G",
                *_vector_module(java),
                "--enable-native-access=ALL-UNNAMED",
                f"-Dnode.data-dir={folder}",
                "-Dnode.environment=test",
                f"-Dconfig={folder}/config.properties",
                *("-cp", f"{home}/lib/*", "io.trino.server.TrinoServer"),
            ],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    trino = Trino(f"http://127.0.0.1:{port}")
    try:
        deadline = time.monotonic() + START_SECONDS
        while not trino.is_ready():
            assert server.poll() is None, (folder / "trino.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "Trino did not become ready"
            time.sleep(1)
        yield trino
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def _java() -> str:
    home = os.environ.get("JAVA_HOME")
    known = os.environ.get("TABLEFLOW_TRINO_JAVA") or (f"{home}/bin/java" if home else None)
    java = known or shutil.which("java")
    if not java:
        pytest.skip(f"no Java for Trino: set TABLEFLOW_TRINO_JAVA to one of {JAVA_NEEDED} or newer")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    version = re.search(r'version "(\d+)', told)
    if not version or int(version[1]) < JAVA_NEEDED:
        pytest.skip(f"Trino needs Java {JAVA_NEEDED}, and {java} is {told.splitlines()[0]}")
    return java


def _vector_module(java: str) -> list[str]:
    """What Trino uses to be faster; a small Java does not have it."""
    told = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=True)
    is_there = "jdk.incubator.vector" in told.stdout
    return ["--add-modules=jdk.incubator.vector"] if is_there else []


def _configure(folder: Path, port: int, catalog: CatalogConnection, storage: S3Connection) -> None:
    server = {
        "node.id": "test",
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "catalog.config-dir": folder / "catalog",
        "plugin.dir": Path(os.environ["TABLEFLOW_TRINO"]) / "plugin",
    }
    (folder / "catalog").mkdir()
    # What `tableflow connect trino` prints.
    access = Access(catalog, storage, "reader", is_embedded=True, spark_catalog="lake")
    (folder / "catalog" / "lake.properties").write_text(snippet(access))
    _write(folder / "config.properties", server)


def _write(file: Path, properties: Mapping[str, object]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
