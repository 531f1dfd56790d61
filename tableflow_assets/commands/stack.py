"""Commands about the embedded stack."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from tableflow_assets.base.errors import StackError
from tableflow_assets.commands.show import console, json_option, print_json, print_table
from tableflow_assets.commands.starting import download_progress, running_stack
from tableflow_assets.commands.troubles import tell, troubles
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.stack.state import StackState

STOP_SECONDS = 120


@click.group()
def stack() -> None:
    """The embedded servers: Kafka, registry, object store, catalog, Spark, Dagster."""


@stack.command()
@click.option("--dagster/--no-dagster", default=True, show_default=True, help="With Dagster.")
def run(dagster: bool) -> None:
    """Start the servers, watch them, stop them with Ctrl-C."""
    from tableflow_assets.stack.connections import disk_space

    settings = load_settings()
    with (
        interrupted_once(),
        running_stack(
            settings.state_dir, console, dagster=dagster, disk=disk_space(settings), report=_say
        ) as servers,
    ):
        _say("The stack is ready. Ctrl-C stops it.")
        servers.wait()


@stack.command()
@click.option("--dagster/--no-dagster", default=True, show_default=True, help="With Dagster.")
def up(dagster: bool) -> None:
    """Start the servers in the background, and return when they are ready."""
    from tableflow_assets.jvm.jars import ensure_jars

    state = _state()
    if state.running:
        _say("The stack is running already.")
    else:
        with download_progress(console) as on_download:
            ensure_jars(on_download)
        state.make_folder()
        _start_in_background(state, dagster)
    _print_servers(_state())


@stack.command()
def down() -> None:
    """Stop the servers. Their data stays."""
    state = _state()
    process = state.supervisor.find() if state.supervisor else None
    if process is None:
        _say("The stack is not running.")
        return
    process.send_signal(signal.SIGTERM)
    with console.status("stopping the servers"):
        process.wait(STOP_SECONDS)
    _say("The stack has stopped.")


@stack.command()
@json_option
def status(as_json: bool) -> None:
    """Which servers run, and where they are reached; exit 1 if the stack is not ready."""
    state = _state()
    if as_json:
        print_json(
            {
                "running": state.running,
                "ready": state.ready,
                "servers": _servers(state),
                "troubles": troubles(load_settings(), state),
            }
        )
    else:
        _print_servers(state)
    sys.exit(0 if state.running and state.ready else 1)


@stack.command()
@click.argument("server", required=False)
@click.option("-n", "--lines", default=40, show_default=True, help="Lines from the end.")
def logs(server: str | None, lines: int) -> None:
    """The last lines of the servers' logs, or of one server's."""
    folder = _folder() / "logs"
    names = sorted(path.stem for path in folder.glob("*.log"))
    if server is not None and server not in names:
        raise StackError(
            f"There is no log of {server!r}.", f"Choose from: {', '.join(names) or 'none yet'}."
        )
    for name in [server] if server else names:
        click.secho(f"== {name}", bold=True)
        content = (folder / f"{name}.log").read_text(errors="replace").splitlines()
        click.echo("\n".join(content[-lines:]))


@contextlib.contextmanager
def interrupted_once() -> Iterator[None]:
    """Ctrl-C or SIGTERM interrupts once. A second one must not interrupt the shutdown."""
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt(*_: object) -> None:
        for number in signals:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    handlers = [signal.signal(number, interrupt) for number in signals]
    try:
        yield
    finally:
        for number, handler in zip(signals, handlers, strict=True):
            signal.signal(number, handler)


def _start_in_background(state: StackState, dagster: bool) -> None:
    from tableflow_assets.base.retry import poll_until

    command = [sys.executable, "-m", "tableflow_assets.cli", "stack", "run"]
    command.append("--dagster" if dagster else "--no-dagster")
    log = state.log_of("supervisor")
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )

    def is_ready() -> bool:
        if _is_ready(process.pid):
            return True
        if process.poll() is not None:
            raise StackError("The stack did not start.", f"Read {log}")
        return False

    with console.status("starting the servers"):
        poll_until(bool, is_ready, every=0.5)


def _is_ready(supervisor: int) -> bool:
    """Whether this supervisor says so: an interrupted one may have left its state behind."""
    state = _state()
    return state.ready and state.supervisor is not None and state.supervisor.pid == supervisor


def _servers(state: StackState) -> list[dict[str, object]]:
    from tableflow_assets.stack.stack import servers_of

    addresses = {server.name: server.address for server in servers_of(state)} if state.ports else {}
    return [
        {
            "server": name,
            "running": record.find() is not None,
            "pid": record.pid,
            "restarts": record.restarts,
            "last_restart": record.last_restart,
            "problem": record.problem,
            "address": addresses.get(name, ""),
        }
        for name, record in state.processes.items()
    ]


def _print_servers(state: StackState) -> None:
    if not state.running:
        _say("The stack is not running. Start it with `tableflow stack up`.")
        return
    columns, servers = ["server", "running", "pid", "restarts", "address"], _servers(state)
    print_table("Embedded stack", columns, [[row[name] for name in columns] for row in servers])
    for name, record in state.processes.items():
        if record.last_restart:
            _say(escape(f"{name} was started again at {record.last_restart}"))
    tell(troubles(load_settings(), state))


def _state() -> StackState:
    from tableflow_assets.stack.state import StackState

    return StackState.load(_folder())


def _folder() -> Path:
    return load_settings().state_dir


def _say(text: str) -> None:
    console.print(text, highlight=False)
