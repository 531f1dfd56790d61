"""Starts the servers in dependency order, watches and restarts them, and stops them in reverse."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import IO

import psutil

from tableflow_assets.base.errors import StackError
from tableflow_assets.stack.logs import trim_logs
from tableflow_assets.stack.processes import end_sessions
from tableflow_assets.stack.running import RESTART_LIMIT, RESTART_WINDOW, Running
from tableflow_assets.stack.server import Server
from tableflow_assets.stack.state import ProcessRecord, StackState, lock_folder
from tableflow_assets.stack.watch import Watch

POLL_SECONDS = 0.5
LOOK_SECONDS = 15.0
STOP_SECONDS = 5

Report = Callable[[str], None]
OnReady = Callable[[str, float], None]  # a server's name, and the seconds since the start


class Supervisor:
    """``with Supervisor(state, servers):`` the servers are ready inside and gone after."""

    def __init__(
        self,
        state: StackState,
        servers: Sequence[Server],
        report: Report = lambda _: None,
        on_ready: OnReady = lambda _name, _seconds: None,
        on_look: Callable[[], None] = lambda: None,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self.state = state
        self._running = {server.name: Running(server) for server in servers}
        self._report = report
        self._on_ready = on_ready
        self._started = 0.0
        self._stopping = threading.Event()
        self._saving = threading.Lock()
        self._lock: IO[str] | None = None
        self._threads: list[threading.Thread] = []
        watched = self._running.values()
        self._watch = Watch(watched, self._stopping, look_seconds, self._note_health, self._look)
        self._on_look = on_look

    def __enter__(self) -> Supervisor:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when every server works; if one does not, raises an error that names its log."""
        self._started = time.monotonic()
        self.state.make_folder()
        self._lock = lock_folder(self.state.folder)
        self._end_leftovers()
        self.state.choose_ports_and_keys()
        self.state.processes = {}
        self.state.supervisor = ProcessRecord(os.getpid(), psutil.Process().create_time())
        self.state.save()
        for running in self._running.values():
            thread = threading.Thread(target=self._look_after, args=[running], daemon=True)
            thread.start()
            self._threads.append(thread)
        for running in self._running.values():
            while not running.ready.wait(POLL_SECONDS):
                self._raise_failure()
        self._raise_failure()
        self.state.ready = True
        self._save()
        self._watch.start()

    def stop(self) -> None:
        """End what was started, by its own pid, dependents first. Safe to call at any time."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for level in reversed(self._levels_of_need()):
            end_sessions({s: r.server.stop_seconds for r in level for s in r.sessions})
        if self._lock is not None:
            self.state.processes, self.state.supervisor, self.state.ready = {}, None, False
            self._save()
            self._lock.close()
            self._lock = None

    def wait(self) -> None:
        """Until a server fails for good, or stop() is called from a signal handler's exception."""
        while not self._stopping.wait(POLL_SECONDS):
            self._raise_failure()

    def is_ready(self, name: str) -> bool:
        return self._running[name].ready.is_set()

    # -- one thread per server ----------------------------------------------------------------

    def _look_after(self, running: Running) -> None:
        try:
            self._bring_up(running)
            while not self._stopping.wait(POLL_SECONDS):
                process = running.process
                if process is not None and process.poll() is not None:
                    self._revive(running, process.returncode)
                elif running.condemned:
                    self._replace(running)
        except Exception as error:
            running.failure = error
            running.ready.set()

    def _revive(self, running: Running, exit_code: int) -> None:
        running.ready.clear()
        running.deaths.append(time.monotonic())
        if running.dies_too_often:
            raise StackError(
                f"{running.name} died {RESTART_LIMIT} times within {RESTART_WINDOW} s.",
                f"Read {self.state.log_of(running.name)}",
            )
        self._restart(running, f"died ({_cause(exit_code)})")

    def _replace(self, running: Running) -> None:
        """It runs and is of no use: end it, and start it again."""
        why = running.condemned
        running.ready.clear()
        self._end(running)
        try:
            self._restart(running, why)
        except StackError as error:  # the other servers still are of use, and the watch goes on
            self._report(f"{_now()} {error.problem} {error.next_step}")
            running.ready.set()

    def _end(self, running: Running) -> None:
        """The process alone: what a code server has started are runs, which may well be fine."""
        process = running.process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(running.server.stop_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _restart(self, running: Running, why: str) -> None:
        running.has_been_ready, running.condemned = True, ""
        self._report(f"{_now()} {running.name} {why}; starting it again")
        restart_time = time.monotonic()
        self._bring_up(running, f"{_now()} UTC: {why}")
        if not self._stopping.is_set():
            seconds = time.monotonic() - restart_time
            self._report(f"{_now()} {running.name} is back after {seconds:.0f} s")

    def _bring_up(self, running: Running, why: str = "") -> None:
        running.server.prepare()
        if running.server.starts_after_needs:
            self._await_needs(running)
        if not self._stopping.is_set():
            self._spawn(running, why)
            self._await_needs(running)
            self._await_ready(running)

    def _await_needs(self, running: Running) -> None:
        for need in running.server.needs:
            while need in self._running and not self._running[need].ready.wait(POLL_SECONDS):
                self._raise_failure()
                if self._stopping.is_set():
                    return

    def _spawn(self, running: Running, why: str) -> None:
        server = running.server
        with self.state.log_of(server.name).open("ab") as log:
            running.process = subprocess.Popen(
                server.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=server.folder,
                env=os.environ | server.environment(),
                umask=0o077,  # what it writes is for its owner's eyes
                start_new_session=True,  # the terminal's Ctrl-C is for the supervisor alone
            )
        running.sessions.append(running.process.pid)
        record = self.state.processes.get(server.name)
        created = psutil.Process(running.process.pid).create_time()
        restarts = record.restarts + 1 if record else 0
        self.state.processes[server.name] = ProcessRecord(
            running.process.pid, created, restarts, last_restart=why
        )
        self._save()

    def _await_ready(self, running: Running) -> None:
        server, deadline = running.server, time.monotonic() + running.server.start_seconds
        reason: Exception | None = None
        while not self._stopping.is_set():
            exit_code = running.process.poll() if running.process else None
            if exit_code is not None and not running.has_been_ready:
                raise StackError(
                    f"{server.name} ended while starting ({_cause(exit_code)}).",
                    f"Read {self.state.log_of(server.name)}",
                )
            if exit_code is not None:
                return  # died again while coming back: the caller counts it
            try:
                server.check()
            except ImportError:
                raise  # a broken installation does not fix itself
            except Exception as error:  # anything else may pass: check again
                reason = error
            else:
                if not running.has_been_ready:
                    self._on_ready(server.name, time.monotonic() - self._started)
                running.ready.set()
                return
            if time.monotonic() > deadline:
                raise StackError(
                    f"{server.name} was not ready after {server.start_seconds:.0f} s: {reason}",
                    f"Read {self.state.log_of(server.name)}",
                )
            self._stopping.wait(POLL_SECONDS)

    # -- shared -------------------------------------------------------------------------------

    def _look(self) -> None:
        trim_logs(self.state.folder / "logs")
        self._on_look()

    def _note_health(self, running: Running) -> None:
        record = self.state.processes.get(running.name)
        if record is not None:
            record.problem = running.health.problem
            self._save()

    def _save(self) -> None:
        with self._saving:
            self.state.save()

    def _raise_failure(self) -> None:
        for running in self._running.values():
            if running.failure is not None:
                raise running.failure

    def _levels_of_need(self) -> list[list[Running]]:
        """Servers without dependencies, then those that only depend on them, and so on."""
        levels: list[list[Running]] = []
        pending = list(self._running.values())
        while pending:
            names = {running.server.name for running in pending}
            levels.append([r for r in pending if not names & set(r.server.needs)])
            pending = [running for running in pending if running not in levels[-1]]
        return levels

    def _end_leftovers(self) -> None:
        """A supervisor that was killed outright leaves its servers behind."""
        # A pid now used by another process has been reused: that process is not ours.
        pids = {
            name: record.pid
            for name, record in self.state.processes.items()
            if record.find() is not None or not psutil.pid_exists(record.pid)
        }
        alive = [name for name, pid in pids.items() if psutil.pid_exists(pid)]
        if alive:
            self._report(f"{_now()} ending what an interrupted run left: {', '.join(alive)}")
        end_sessions(dict.fromkeys(pids.values(), STOP_SECONDS))


def _cause(exit_code: int) -> str:
    return f"signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def _now() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")
