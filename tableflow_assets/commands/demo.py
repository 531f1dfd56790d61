"""`tableflow demo`: the whole path on the embedded stack, from scratch."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tableflow_assets.commands.show import console, json_option, print_json, print_table
from tableflow_assets.commands.stack import interrupted_once
from tableflow_assets.commands.starting import running_stack
from tableflow_assets.commands.troubles import troubles
from tableflow_assets.settings.settings import Settings, load_settings

if TYPE_CHECKING:
    from tableflow_assets.stack.stack import Stack

EVENTS_SHOWN = 6
POLL_SECONDS = 0.5


@click.command()
@click.option("--once", is_flag=True, help="Without the UI: produce, materialize, verify, query.")
@click.option("--count", default=2000, show_default=True, help="With --once: records to produce.")
@click.option("--seed", default=1, show_default=True, help="With --once: same seed, same records.")
@json_option
def demo(once: bool, count: int, seed: int, as_json: bool) -> None:
    """Start everything, with data flowing, and open Dagster; Ctrl-C stops it all."""
    if once:
        _once(count, seed, as_json)
        return
    console.print("Servers, Dagster and records that flow: about half a minute …")
    # Ctrl-C is the normal end; without this, `make demo` would report an error.
    with contextlib.suppress(KeyboardInterrupt), interrupted_once():
        _live(load_settings())
    console.print("Stopped. The data stays; `make demo` finds it again.")


def _once(count: int, seed: int, as_json: bool) -> None:
    """In a state folder of its own: a demo must neither need nor touch existing data."""
    # The imports alone can take seconds the first time.
    click.echo("Producing, materializing and verifying, on servers of its own …", err=True)
    from tableflow_assets.commands.once import run_once

    with tempfile.TemporaryDirectory(prefix="tableflow-demo-") as folder, interrupted_once():
        result = run_once(Path(folder), count, seed)
    if as_json:
        print_json(result)
    else:
        topics = result["topics"]
        columns = list(topics[0])
        print_table("Topics", columns, [[topic[name] for name in columns] for topic in topics])
        click.echo(f"{'All held' if result['ok'] else 'FAILED'} after {result['seconds']:.0f} s.")
    sys.exit(0 if result["ok"] else 1)


def _live(settings: Settings) -> None:
    from tableflow_assets.labs import LAB_TOPICS
    from tableflow_assets.source.discovery import remember
    from tableflow_assets.stack.connections import disk_space

    started = time.monotonic()
    today = datetime.now(UTC).date()
    remember(settings, dict.fromkeys(LAB_TOPICS, today))  # Dagster loads before Kafka is up
    events: list[str] = []
    with running_stack(
        settings.state_dir,
        console,
        dagster=True,
        generators=True,
        disk=disk_space(settings),
        report=lambda text: _note(events, text),
    ) as stack:
        board = _Board(settings, stack, events, time.monotonic() - started)
        threading.Thread(target=board.await_first_rows, args=[started]).start()
        try:
            board.show()
        finally:
            board.closed.set()


def _note(events: list[str], text: str) -> None:
    events.append(text)
    if not console.is_terminal:
        console.print(text, highlight=False)


class _Board:
    """The panel: where everything is, and what has happened since."""

    def __init__(
        self, settings: Settings, stack: Stack, events: list[str], ready_after: float
    ) -> None:
        from tableflow_assets.stack.stack import servers_of

        self._settings, self._stack, self._events = settings, stack, events
        self._ready_after = ready_after
        self._first_rows = "not yet"
        self.closed = threading.Event()
        self._addresses = {server.name: server.address for server in servers_of(stack.state)}

    def show(self) -> None:
        if not console.is_terminal:
            console.print(self._panel())
            self._stack.wait()
            return
        with Live(get_renderable=self._panel, console=console, refresh_per_second=1):
            self._stack.wait()

    def await_first_rows(self, started: float) -> None:
        """Poll DuckDB until a table has rows: only then is there something to see."""
        from tableflow_assets.query.duckdb import connect_duckdb
        from tableflow_assets.tableflow import Tableflow

        catalog = Tableflow(self._settings).catalog
        while not self.closed.wait(POLL_SECONDS):
            try:
                table = _table_with_rows(connect_duckdb(catalog.connection, catalog.storage))
            except Exception:  # there is no namespace yet, or a server is being restarted
                table = None
            if table:
                self._first_rows = f"{time.monotonic() - started:.0f} s after the command"
                _note(self._events, f"first rows, in `{table}`, {self._first_rows}")
                return

    def _panel(self) -> Panel:
        facts = Table.grid(padding=(0, 2))
        catalog = f"http://127.0.0.1:{self._stack.state.ports['iceberg']}"
        for name, value in (
            ("Dagster", f"[bold]{self._addresses['webserver']}[/]"),
            ("Iceberg REST catalog", f"{catalog}  (warehouse s3://lake/)"),
            ("Query", 'tableflow query "SELECT count(*) FROM payments"'),
            ("Status", "tableflow status    tableflow verify"),
            ("Kafka", self._addresses["kafka"]),
            ("Schema registry", self._addresses["registry"]),
            ("Spark Connect", self._addresses["spark"]),
            ("State", str(self._stack.state.folder)),
            ("Ready", f"{self._ready_after:.0f} s after the command"),
            ("First rows", self._first_rows),
            ("Stop", "Ctrl-C"),
        ):
            facts.add_row(f"[dim]{name}[/]", value)
        for trouble in troubles(self._settings, self._stack.state):
            facts.add_row("[dim]Trouble[/]", Text(trouble, style="red"))
        recent = [Text(event, style="yellow") for event in self._events[-EVENTS_SHOWN:]]
        return Panel(Group(facts, *recent), title="Tableflow Assets", expand=False)


def _table_with_rows(connection: Any) -> str | None:
    tables = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
    for table in tables:
        if connection.execute(f'SELECT 1 FROM "{table}" LIMIT 1').fetchone():  # noqa: S608
            return str(table)
    return None
