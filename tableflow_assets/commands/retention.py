"""`tableflow retention`: drop the windows that are older than a topic's `retention`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.commands.show import counted, json_option, print_json, print_table
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.retention import Dropped


@click.command()
@click.argument("topic")
@click.option("--dry-run", is_flag=True, help="Only show what would go.")
@json_option
def retention(topic: str, dry_run: bool, as_json: bool) -> None:
    """Drop the rows and dead letters of windows older than the topic's `retention`.

    Only whole windows go. Maintenance does the same on its schedule.
    """
    from tableflow_assets.operate.retention import drop_old_windows
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    chosen = tableflow.topic(topic)
    if chosen.retention is None:
        raise SettingsError(
            f"The topic {topic!r} has no `retention`: its rows stay for ever.",
            "Set it under the topic's name in tableflow.yaml, such as `retention: 90 days`.",
        )
    done = drop_old_windows(tableflow.pipeline(chosen), run_id="cli", dry_run=dry_run)
    if as_json:
        print_json(done.to_json())
    else:
        _show(done)


def _show(done: Dropped) -> None:
    kept_from = done.before.strftime("%Y-%m-%d %H:%M") if done.before else "the first record"
    if done.is_nothing:
        click.echo(f"{done.topic}: nothing is older than {kept_from} (UTC).")
    else:
        title = "Dropped" if done.is_done else "Would be dropped"
        rows = [[one.start.strftime("%Y-%m-%d %H:%M"), one.rows] for one in done.windows]
        print_table(f"{title}: {done.topic} before {kept_from}", ["window (UTC)", "rows"], rows)
        click.echo(
            f"{counted(done.rows, 'row')} of {counted(len(done.windows), 'window')},"
            f" in {counted(done.files, 'file')};"
            f" {counted(done.dead_letters, 'dead letter')}."
        )
    if done.letters_deleted:
        click.echo(f"{done.letters_deleted} dead letters, dropped before, were deleted.")
