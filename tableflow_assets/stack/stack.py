"""The embedded stack as a whole: its servers, and the variants in which it can be started."""

from __future__ import annotations

from pathlib import Path

from tableflow_assets.base.disk_space import DiskSpace, DiskWatch
from tableflow_assets.jvm.jars import Progress, ensure_jars
from tableflow_assets.stack.dagster import CodeServer, Daemon, LabGenerators, Webserver
from tableflow_assets.stack.kafka import KafkaServer
from tableflow_assets.stack.registry import RegistryServer
from tableflow_assets.stack.seaweed import SeaweedServer
from tableflow_assets.stack.server import Server
from tableflow_assets.stack.spark import SparkServer
from tableflow_assets.stack.state import StackState
from tableflow_assets.stack.supervisor import OnReady, Report, Supervisor

DATA_SERVERS: tuple[type[Server], ...] = (KafkaServer, RegistryServer, SeaweedServer, SparkServer)
DAGSTER_SERVERS: tuple[type[Server], ...] = (CodeServer, Webserver, Daemon)


class Stack(Supervisor):
    """``with Stack(folder):`` Kafka, registry, object store with catalog, and Spark are ready."""

    def __init__(
        self,
        folder: Path,
        *,
        dagster: bool = False,
        generators: bool = False,
        disk: DiskSpace | None = None,
        report: Report = lambda _: None,
        on_ready: OnReady = lambda _name, _seconds: None,
        on_download: Progress | None = None,
    ) -> None:
        state = StackState.load(folder.absolute())
        kinds = list(DATA_SERVERS)
        kinds += DAGSTER_SERVERS if dagster else ()
        kinds += [LabGenerators] if generators else []
        self._on_download = on_download
        on_look = DiskWatch(disk, report).look if disk else lambda: None
        super().__init__(state, [kind(state) for kind in kinds], report, on_ready, on_look)

    def start(self) -> None:
        ensure_jars(self._on_download)
        super().start()


def servers_of(state: StackState) -> list[Server]:
    return [kind(state) for kind in (*DATA_SERVERS, *DAGSTER_SERVERS)]
