"""`tableflow follow`: stay with the logs, and commit what comes, without Dagster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from tableflow_assets.commands.published import warn_of_failures
from tableflow_assets.commands.show import json_option
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.follow.turn import Turn


@click.command()
@click.argument("topics", nargs=-1)
@click.option(
    "--idle",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End once nothing has come for so long. Default: stay until Ctrl-C.",
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Tables at a time."
)
@json_option
def follow(topics: tuple[str, ...], idle: float | None, workers: int, as_json: bool) -> None:
    """Stay with the logs, and commit what comes to all tables, or to these, again and again.

    Prints a line for every commit; with --json, an object. May run beside Dagster's own runs.
    """
    from tableflow_assets.follow.follow import follow as follow_logs
    from tableflow_assets.follow.pace import Pace
    from tableflow_assets.tableflow import Tableflow

    settings = load_settings()
    pace = Pace(workers=workers, idle_seconds=idle or float("inf"))
    why = follow_logs(
        lambda: Tableflow(settings),
        topics=topics,
        run_id="cli",
        pace=pace,
        on_turn=_print_json if as_json else _print,
    )
    click.echo(f"It ends: {why}.", err=True)


def _print(turn: Turn) -> None:
    warn_of_failures(turn.topic.name, turn.catalogs)
    if turn.committed.snapshots:
        click.echo(f"{turn.topic.name}: {turn.committed} in {turn.seconds:.2f} s")
    if turn.error is not None:
        click.secho(f"{turn.topic.name}: {turn.error}", fg="red", err=True)


def _print_json(turn: Turn) -> None:
    report = {
        "topic": turn.topic.name,
        "rows": turn.committed.rows,
        "dead_letters": turn.committed.dead_letters + turn.committed.skipped,
        "commits": len(turn.committed.snapshots),
        "seconds": round(turn.seconds, 3),
        "error": str(turn.error) if turn.error else None,
    }
    if turn.committed.snapshots or turn.error:
        click.echo(json.dumps(report))
