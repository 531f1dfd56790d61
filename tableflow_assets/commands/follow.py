"""`tableflow follow`: stay with the logs, and commit what comes, without Dagster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.commands.published import warn_of_failures
from tableflow_assets.commands.show import json_option
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.follow.packing import PackTurn
    from tableflow_assets.follow.products import ProductTurn
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
    "--workers", type=click.IntRange(min=1), default=2, show_default=True, help="Topics at a time."
)
@json_option
def follow(topics: tuple[str, ...], idle: float | None, workers: int, as_json: bool) -> None:
    """Stay with the logs, and commit what comes to all tables, or to these, again and again.

    Brings products up to date too, unless topics are named. Prints a line for every commit; with --json, an
    object. May run beside Dagster's own runs.
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
        on_turn=lambda turn: _tell(turn, _about_topic(turn) if as_json else None),
        on_product_turn=lambda turn: _tell(turn, _about_product(turn) if as_json else None),
        on_packed=lambda turn: _tell_packed(turn, as_json=as_json),
    )
    click.echo(f"It ends: {why}.", err=True)


def _tell(turn: Turn | ProductTurn, report: dict[str, Any] | None) -> None:
    """``report``: instead of a line for people."""
    if report is not None:
        if turn.has_committed or turn.error:
            end = {"seconds": round(turn.seconds, 3), "error": str(turn.error or "") or None}
            click.echo(json.dumps(report | end))
        return
    warn_of_failures(turn.name, turn.catalogs)
    if turn.has_committed:
        click.echo(f"{turn.name}: {turn.summary}")
    if turn.error is not None:
        click.secho(f"{turn.name}: {turn.error}", fg="red", err=True)


def _tell_packed(turn: PackTurn, *, as_json: bool) -> None:
    if turn.error is not None:
        click.secho(f"{turn.name}: {turn.error}", fg="red", err=True)
    elif turn.compacted is not None and turn.is_work_done:
        report = {"table": turn.name, "compacted": turn.compacted.to_json()}
        click.echo(json.dumps(report) if as_json else f"{turn.name}: {turn.summary}")


def _about_topic(turn: Turn) -> dict[str, Any]:
    return {
        "topic": turn.name,
        "rows": turn.committed.rows,
        "dead_letters": turn.committed.dead_letters + turn.committed.skipped,
        "commits": len(turn.committed.snapshots),
    }


def _about_product(turn: ProductTurn) -> dict[str, Any]:
    return {
        "product": turn.name,
        "rows_added": turn.result.rows_added,
        "rows_removed": turn.result.rows_removed,
    }
