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
    spec = tableflow.topic(topic)
    if spec.retention is None:
        raise SettingsError(
            f"The topic {topic!r} has no `retention`: its rows stay for ever.",
            "Set it under the topic's name in tableflow.yaml, such as `retention: 90 days`.",
        )
    result = drop_old_windows(tableflow.pipeline(spec), run_id="cli", dry_run=dry_run)
    if as_json:
        print_json(result.to_json())
    else:
        _show(result)


def _show(result: Dropped) -> None:
    kept_from = result.before.strftime("%Y-%m-%d %H:%M") if result.before else "the first record"
    if result.is_nothing:
        click.echo(f"{result.topic}: nothing is older than {kept_from} (UTC).")
    else:
        title = "Dropped" if result.is_done else "Would be dropped"
        rows = [[window.start.strftime("%Y-%m-%d %H:%M"), window.rows] for window in result.windows]
        print_table(f"{title}: {result.topic} before {kept_from}", ["window (UTC)", "rows"], rows)
        click.echo(
            f"{counted(result.rows, 'row')} of {counted(len(result.windows), 'window')},"
            f" in {counted(result.files, 'file')};"
            f" {counted(result.dead_letters, 'dead letter')}."
        )
    if result.letters_deleted:
        click.echo(f"{result.letters_deleted} dead letters, dropped before, were deleted.")
