"""`tableflow history`: the states that a table has had."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from tableflow_assets.base.errors import MirrorError
from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.settings.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tableflow_assets.lake.catalog import RestCatalog
    from tableflow_assets.operate.history import State

OWN_REFS = ("main", "tableflow_ledger")  # these only say that it is the current one


@click.command()
@click.argument("topic")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--all", "also_unseen", is_flag=True, help="Also snapshots that no reader ever saw.")
@json_option
def history(topic: str, limit: int, also_unseen: bool, as_json: bool) -> None:
    """The states that a table has had, newest first: what changed, up to where, and by which run."""
    from tableflow_assets.operate.history import History
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    table = tableflow.existing_table(tableflow.table(topic))
    table_history = History(table, _delta_versions(tableflow.catalog, table))
    states = table_history.states(limit, also_unseen=also_unseen)
    webserver = webserver_of(tableflow.settings)
    if as_json:
        print_json(
            [state.to_json() | {"run_url": run_url(webserver, state.run_id)} for state in states]
        )
        return
    _show(topic, states)
    for run_id in dict.fromkeys(state.run_id for state in states):
        if url := run_url(webserver, run_id):
            click.echo(f"Run {_short(run_id)}: {url}")
    total = len(table_history.snapshots) if also_unseen else len(table_history.became_current)
    if total > limit:
        click.echo(f"{total - limit} older states are not shown: --limit {total}")


def webserver_of(settings: Settings) -> str | None:
    """The URL of Dagster's UI: from the settings, or the embedded stack's while it runs."""
    from tableflow_assets.stack.state import StackState

    url = settings.dagster.webserver_url or os.environ.get("TABLEFLOW_WEBSERVER_URL")
    if url:
        return str(url).rstrip("/")
    state = StackState.load(settings.state_dir)
    is_up = state.running and "webserver" in state.processes
    return f"http://127.0.0.1:{state.ports['webserver']}" if is_up else None


def run_url(webserver: str | None, run_id: str) -> str | None:
    """Command line runs have no page in Dagster: their ids are not Dagster's."""
    try:
        return None if webserver is None else f"{webserver}/runs/{UUID(run_id)}"
    except ValueError:
        return None


def _delta_versions(catalog: RestCatalog, table: Table) -> Mapping[int, int]:
    from tableflow_assets.query.as_of import delta_versions

    try:
        return delta_versions(catalog, table)
    except MirrorError as error:  # Iceberg's history does not depend on it
        click.secho(f"Without the versions of the Delta log: {error}", err=True)
        return {}


def _show(topic: str, states: list[State]) -> None:
    columns = ["snapshot", "since (UTC)", "operation", "rows", "files", "read up to", "run"]
    columns += ["delta", "tags and branches", ""]
    print_table(f"History of {topic}", columns, [_row(state) for state in states])


def _row(state: State) -> list[Any]:
    return [
        str(state.snapshot_id),
        state.at.strftime("%Y-%m-%d %H:%M:%S"),
        state.operation,
        _changed(state.rows, state.rows_added, state.rows_deleted),
        _changed(state.files, state.files_added, state.files_removed),
        " ".join(f"{p}:{end}" for p, end in (state.offsets or {}).items()),
        _short(state.run_id),
        state.delta_version,
        " ".join(name for name in state.refs if name not in OWN_REFS),
        "" if state.place == "main" else state.place,
    ]


def _changed(total: int, added: int, removed: int) -> str:
    return f"{total} (+{added} -{removed})" if added or removed else str(total)


def _short(run_id: str) -> str:
    """As Dagster shows it."""
    return run_id.partition("-")[0] if run_url("", run_id) else run_id
