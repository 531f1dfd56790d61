"""Dagster's three processes: the code server, the webserver and the daemon."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
from functools import cached_property
from pathlib import Path

import grpc
import httpx
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tableflow_assets.base.errors import StackError
from tableflow_assets.stack.server import Server, http_client
from tableflow_assets.stack.state import StackState

LOCATION = "tableflow_assets"
MODULE = "tableflow_assets.definitions"
NEEDED_BY_DEFINITIONS = ("kafka", "registry", "seaweed", "spark")

NEEDED_DAEMONS = ("SENSOR", "QUEUED_RUN_COORDINATOR")
LONGEST_SOCKET_PATH = 100  # the kernel's limit is 107 bytes
_CREATING = threading.Lock()

_INSTANCE = """\
telemetry: {enabled: false}
nux: {enabled: false}
# Sensors look for new records during their whole tick: each in a thread of its own.
sensors: {use_threads: true, num_workers: 4}
run_coordinator:
  module: dagster.core.run_coordinator
  class: QueuedRunCoordinator
  config: {dequeue_interval_seconds: 1}
run_monitoring: {enabled: true, start_timeout_seconds: 180, free_slots_after_run_end_seconds: 30}
# Maintenance has one place of its own: whoever launches it, it must not take those of other runs.
concurrency:
  runs:
    max_concurrent_runs: 4
    tag_concurrency_limits: [{key: tableflow/maintenance, limit: 1}]
  pools: {default_limit: 1, granularity: op}
freshness: {enabled: true}
retention:
  sensor: {purge_after_days: {skipped: 1, success: 7, failure: 7, started: 7}}
  schedule: {purge_after_days: 7}
"""


class DagsterServer(Server):
    """What the three have in common: the instance, and the path of the settings."""

    # The code server would wait a minute for a run. A run may be killed at any moment: its table
    # has the commit whole or not at all, and the next run goes on from there.
    stop_seconds = 3

    def __init__(self, state: StackState) -> None:
        super().__init__(state)
        # Resolved now: a restarted server must find the settings of its first start.
        self._settings_file = Path(
            os.environ.get("TABLEFLOW_CONFIG") or "tableflow.yaml"
        ).absolute()

    def prepare(self) -> None:
        super().prepare()
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "dagster.yaml").write_text(_INSTANCE)
        server = {"socket": str(self.code_socket), "location_name": LOCATION}
        self.workspace.write_text(json.dumps({"load_from": [{"grpc_server": server}]}))
        with _CREATING:
            self._create_instance()

    def _create_instance(self) -> None:
        """Once, and one at a time: two Dagster processes that find no database both create one, and clash."""
        created = self.home / "created"
        if not created.exists():
            self._run_beforehand("dagster", "instance", "info")
            created.touch()

    def _run_beforehand(self, *module: str) -> None:
        finished = subprocess.run(
            [sys.executable, "-m", *module],
            env=os.environ | self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode != 0:
            raise StackError(
                f"Dagster's instance cannot be used: {finished.stderr[-500:]}",
                f"Look at {self.home}; if it holds nothing of value, remove it and start again.",
            )

    @property
    def home(self) -> Path:
        return self.state.folder / "dagster"

    @property
    def code_socket(self) -> Path:
        """Whoever reaches the code server can have it run code: so it is a file, which has an owner."""
        path = self.home / "code_server.socket"
        if len(os.fsencode(path)) <= LONGEST_SOCKET_PATH:
            return path
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"tableflow-{os.getuid()}-{digest}" / path.name

    @property
    def workspace(self) -> Path:
        return self.home / "workspace.yaml"  # JSON is YAML

    @property
    def webserver_address(self) -> str:
        return f"http://127.0.0.1:{self.state.ports['webserver']}"

    def environment(self) -> dict[str, str]:
        return {
            "DAGSTER_HOME": str(self.home),
            "TABLEFLOW_STATE": str(self.state.folder),
            "TABLEFLOW_WEBSERVER_URL": self.webserver_address,
            # The servers start in folders of their own: a file found here must be found there too.
            **({"TABLEFLOW_CONFIG": str(file)} if (file := self._settings_file).is_file() else {}),
        }


class CodeServer(DagsterServer):
    """Holds the definitions; runs are its children."""

    name = "code_server"
    needs = NEEDED_BY_DEFINITIONS

    def prepare(self) -> None:
        super().prepare()
        self._make_room_for_the_socket()

    def _make_room_for_the_socket(self) -> None:
        folder = self.code_socket.parent
        folder.mkdir(mode=stat.S_IRWXU, parents=True, exist_ok=True)
        if folder.lstat().st_uid != os.getuid():  # in /tmp, anybody may have made it
            raise StackError(
                f"The folder {folder} belongs to another account.",
                "Set TABLEFLOW_STATE to a shorter path: then it is not needed.",
            )
        self.code_socket.unlink(missing_ok=True)  # of a server that was killed

    def command(self) -> list[str]:
        start = ("-m", "dagster", "code-server", "start", "-s", str(self.code_socket))
        return [sys.executable, *start, "-m", MODULE, "--location-name", LOCATION]

    def check(self) -> None:
        with grpc.insecure_channel(f"unix:{self.code_socket}") as channel:
            question = health_pb2.HealthCheckRequest(service="DagsterApi")
            answer = health_pb2_grpc.HealthStub(channel).Check(question, timeout=5)
        if answer.status != health_pb2.HealthCheckResponse.SERVING:
            raise ValueError(f"the code server is not serving: {answer.status}")


class Webserver(DagsterServer):
    name = "webserver"
    needs = ("code_server",)

    @property
    def address(self) -> str:
        return self.webserver_address

    def command(self) -> list[str]:
        port = str(self.state.ports["webserver"])
        where = ("-h", "127.0.0.1", "-p", port, "-w", str(self.workspace))
        return [sys.executable, "-m", "dagster_webserver", *where]

    def check(self) -> None:
        question = {"query": "{ repositoriesOrError { __typename } }"}
        answer = httpx.post(f"{self.address}/graphql", json=question, timeout=20).raise_for_status()
        kind = answer.json()["data"]["repositoriesOrError"]["__typename"]
        if kind != "RepositoryConnection":
            raise ValueError(f"the webserver has no definitions: {kind}")

    def look(self) -> None:
        self._client.get(f"{self.address}/server_info").raise_for_status()

    @cached_property
    def _client(self) -> httpx.Client:
        return http_client()


class Daemon(DagsterServer):
    """Ticks the sensors and schedules, and takes runs from the queue."""

    name = "daemon"
    needs = ("code_server", "webserver")
    _is_first_start = True

    def prepare(self) -> None:
        super().prepare()
        # Later on, a restarted daemon finds runs that are alive; a new instance has none at all.
        if self._is_first_start and not self._is_new_instance():
            self._run_beforehand("tableflow_assets.defs.interrupted")
        self._is_first_start = False

    def _is_new_instance(self) -> bool:
        supervisor_start = self.state.supervisor.created if self.state.supervisor else 0
        return (self.home / "created").stat().st_mtime > supervisor_start

    def command(self) -> list[str]:
        return [sys.executable, "-m", "dagster._daemon", "run", "-w", str(self.workspace)]

    def check(self) -> None:
        """The daemons that we need have reported since this process started.

        The scheduler's first report may take a minute, and nothing waits for it.
        """
        fields = "daemonType lastHeartbeatTime"
        query = f"{{ instance {{ daemonHealth {{ allDaemonStatuses {{ {fields} }} }} }} }}"
        url = f"{self.webserver_address}/graphql"
        answer = httpx.post(url, json={"query": query}, timeout=20).raise_for_status().json()
        statuses = answer["data"]["instance"]["daemonHealth"]["allDaemonStatuses"]
        process_start = self.state.processes[self.name].created
        silent = [
            status["daemonType"]
            for status in statuses
            if status["daemonType"] in NEEDED_DAEMONS
            and (status["lastHeartbeatTime"] or 0) < process_start
        ]
        if silent:
            raise ValueError(f"these daemons have not reported yet: {', '.join(silent)}")

    def look(self) -> None:
        """Dagster's own watch over its threads ends the process if one of them hangs."""


class LabGenerators(DagsterServer):
    """The labs' producers, at a gentle rate: something to look at."""

    name = "generators"
    needs = ("kafka", "registry")
    starts_after_needs = True
    rate = 5

    def command(self) -> list[str]:
        produce = ("labs", "produce", "--rate", str(self.rate), "--seed", "1")
        return [sys.executable, "-m", "tableflow_assets.cli", *produce]

    def check(self) -> None:
        """A worker, not a server: it is ready as soon as it runs."""
