"""Apicurio Registry behind Confluent's schema registry API."""

from __future__ import annotations

import shutil
import tarfile
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tableflow_assets.jvm.jars import cache_dir, jars_of
from tableflow_assets.jvm.java import java_command
from tableflow_assets.stack.server import Server, http_client

if TYPE_CHECKING:
    import httpx


class RegistryServer(Server):
    name = "registry"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.state.ports['registry']}/apis/ccompat/v7"

    def prepare(self) -> None:
        super().prepare()
        unpacked_application()

    def command(self) -> list[str]:
        options = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": self.state.ports["registry"],
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": self.state.ports["registry_management"],
            "quarkus.log.level": "WARN",
            # Confluent's defaults; Apicurio's own are to accept anything.
            "apicurio.rules.global.compatibility": "BACKWARD",
            "apicurio.rules.global.validity": "FULL",
            "apicurio.storage.kind": "sql",
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder}/registry;DB_CLOSE_ON_EXIT=FALSE",
        }
        tuning = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        properties = [f"-D{key}={value}" for key, value in options.items()]
        jar = unpacked_application() / "quarkus-run.jar"
        return [*java_command(), *tuning, *properties, "-jar", str(jar)]

    def check(self) -> None:
        import httpx

        httpx.get(f"{self.address}/subjects", timeout=5).raise_for_status()

    def look(self) -> None:
        """Its default rules, which are in its database; a list of all subjects may be long."""
        self._client.get(f"{self.address}/config").raise_for_status()

    @cached_property
    def _client(self) -> httpx.Client:
        return http_client()


def unpacked_application() -> Path:
    """The registry's archive, unpacked once beside its cached file."""
    archive = jars_of("registry")[0]
    folder = cache_dir() / "unpacked" / archive.name.removesuffix(".tar.gz")
    if not folder.exists():
        draft = folder.with_suffix(".tmp")
        shutil.rmtree(draft, ignore_errors=True)  # of an interrupted start
        with tarfile.open(archive) as tar:
            tar.extractall(draft, filter="data")
        draft.replace(folder)
    return folder
