"""What the embedded stack remembers between starts: its folder, its ports, its credentials, its processes."""

from __future__ import annotations

import fcntl
import json
import os
import random
import secrets
import socket
import stat
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any

import psutil

from tableflow_assets.base.errors import NewerFormat, StackError

STATE_FILE = "stack.json"
PORT_NAMES = (
    "kafka",
    "kafka_controller",
    "registry",
    "registry_management",
    "s3",
    "s3_grpc",
    "iceberg",
    "weed_master",
    "weed_master_grpc",
    "weed_volume",
    "weed_volume_grpc",
    "weed_filer",
    "weed_filer_grpc",
    "spark",
    "webserver",
)

# Below the range that Linux uses for outgoing connections: one of those could take a port between our
# choice and the server's start.
PORTS = range(20_000, 32_000)
ATTEMPTS = 1000
OWN_FOLDER = "Set TABLEFLOW_STATE (or `state:` in tableflow.yaml) to a folder of your own."


@dataclass
class ProcessRecord:
    """A process that a stack started, identified by pid and start time together."""

    pid: int
    created: float
    restarts: int = 0
    last_restart: str = ""  # when, and why
    problem: str = ""  # what is wrong with the server while it runs

    def find(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.pid)
            is_same = abs(process.create_time() - self.created) < 1
            return process if is_same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None


@dataclass
class StackState:
    """``stack.json`` in the state folder; readable only by its owner, because it holds the credentials."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    # For those who only read: people, engines, dashboards.
    reader_access_key: str = ""
    reader_secret_key: str = field(default="", repr=False)
    spark_token: str = field(default="", repr=False)
    supervisor: ProcessRecord | None = None
    processes: dict[str, ProcessRecord] = field(default_factory=dict)
    ready: bool = False

    @classmethod
    def load(cls, folder: Path) -> StackState:
        """The state in this folder, or a fresh one."""
        path = folder / STATE_FILE
        if not path.exists():
            return cls(folder)
        content = json.loads(path.read_text())
        _refuse_unknown_keys(path, content)
        supervisor = content.pop("supervisor")
        processes = {k: ProcessRecord(**v) for k, v in content.pop("processes").items()}
        return cls(
            folder,
            **content,
            supervisor=ProcessRecord(**supervisor) if supervisor else None,
            processes=processes,
        )

    def save(self) -> None:
        content = asdict(self)
        del content["folder"]
        path = self.folder / STATE_FILE
        draft = path.with_suffix(".tmp")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file, indent=1)
        draft.replace(path)

    def make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "logs").mkdir(exist_ok=True)
            (self.folder / "writable").write_text("")
            (self.folder / "writable").unlink()
        except OSError as error:
            raise StackError(
                f"The state folder {self.folder} cannot be written: {error.strerror}", OWN_FOLDER
            ) from error
        self._close_to_others()

    def _close_to_others(self) -> None:
        """In the folder are keys, records, and the tables themselves."""
        mode = self.folder.stat().st_mode
        if mode & stat.S_ISVTX:  # as /tmp has it: a folder for all, which must stay one
            raise StackError(f"The state folder {self.folder} is shared by all.", OWN_FOLDER)
        if not mode & (stat.S_IRWXG | stat.S_IRWXO):
            return
        try:
            self.folder.chmod(stat.S_IRWXU)
        except OSError as error:
            raise StackError(
                f"Other accounts can look into the state folder {self.folder}: {error.strerror}",
                OWN_FOLDER,
            ) from error

    def choose_ports_and_keys(self) -> None:
        """Choose what is not chosen yet; keep the last start's ports if they are still free."""
        self.access_key = self.access_key or secrets.token_hex(10)
        self.secret_key = self.secret_key or secrets.token_hex(20)
        self.reader_access_key = self.reader_access_key or secrets.token_hex(10)
        self.reader_secret_key = self.reader_secret_key or secrets.token_hex(20)
        self.spark_token = self.spark_token or secrets.token_hex(20)
        self.ports = _free_ports(self.ports)
        self.ready = False

    @property
    def running(self) -> bool:
        return self.supervisor is not None and self.supervisor.find() is not None

    def log_of(self, server: str) -> Path:
        return self.folder / "logs" / f"{server}.log"


def _refuse_unknown_keys(path: Path, content: dict[str, Any]) -> None:
    known = {field.name for field in fields(StackState)}
    of_processes = {field.name for field in fields(ProcessRecord)}
    records = [*content["processes"].values(), content["supervisor"] or {}]
    unknown = {*content} - known | {key for record in records for key in record} - of_processes
    if unknown:
        raise NewerFormat(str(path), f"it has {', '.join(sorted(unknown))}")


def _free_ports(preferred: dict[str, int]) -> dict[str, int]:
    """A free loopback port for every name. All stay bound until all are chosen, so none is used twice."""
    listeners: list[socket.socket] = []
    ports = {}
    candidates = random.sample(PORTS, ATTEMPTS)
    try:
        for name in PORT_NAMES:
            listener = _bind(preferred.get(name) or candidates.pop())
            while listener is None and candidates:
                listener = _bind(candidates.pop())
            if listener is None:
                raise StackError("No free port on the loopback interface.", "End other servers.")
            listeners.append(listener)
            ports[name] = int(listener.getsockname()[1])
        return ports
    finally:
        for listener in listeners:
            listener.close()


def _bind(port: int) -> socket.socket | None:
    listener = socket.socket()
    # As the servers do: a port in TIME_WAIT after our own last stop counts as free.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1)  # with SO_REUSEADDR only listening proves that nobody else does
    except OSError:
        listener.close()
        return None
    return listener


def lock_folder(folder: Path) -> IO[str]:
    """At most one supervisor per state folder; the lock ends with the process that holds it."""
    file = (folder / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StackError(
            f"A stack already runs on the state folder {folder}.",
            "Use it, stop it with `tableflow stack down`, or set TABLEFLOW_STATE to another folder.",
        ) from error
    return file
