"""`tableflow rollback`: take a table and its ledger back to an earlier state."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tableflow_assets.commands.show import json_option, print_json, print_table, warn_of_products
from tableflow_assets.operate.moments import FORMS, moment
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.rollback import Rollback


@click.command()
@click.argument("topic")
@click.option("--to", "when", required=True, metavar="WHEN", help=f"Which state: {FORMS}.")
@click.option("--dry-run", is_flag=True, help="Only show what would be dropped.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rollback(topic: str, when: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Take a table back to an earlier state; the next run reads the rest of the log again.

    Refused if the log no longer holds all that would have to be read again. What was current stays
    readable under a tag. Without --yes and without a terminal to ask on, nothing is done.
    """
    from tableflow_assets.operate.rollback import find, roll_back
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    handle = tableflow.handle(tableflow.table(topic))
    plan = find(handle, moment(when), tableflow.log)
    if not plan.is_nothing:
        warn_of_products(tableflow.loaded_products.following(handle.spec.table))
    is_asked = not (yes or dry_run or as_json or plan.is_nothing) and sys.stdin.isatty()
    if is_asked:
        _show(plan)
        click.confirm("Roll back?", abort=True, err=True)
    if (yes or is_asked) and not dry_run:
        plan = roll_back(handle, plan)
    if as_json:
        print_json(plan.to_json())
        return
    if not is_asked:
        _show(plan)
    _conclude(plan)


def _show(plan: Rollback) -> None:
    rows = [
        [
            str(state.snapshot_id),
            state.at.strftime("%Y-%m-%d %H:%M:%S"),
            state.operation,
            state.rows_added,
            state.rows_deleted,
            state.run_id,
        ]
        for state in plan.dropped
    ]
    title = "Dropped" if plan.is_done else "Would be dropped"
    columns = ["snapshot", "since (UTC)", "operation", "rows added", "rows deleted", "run"]
    print_table(f"{title}: states of {plan.topic}", columns, rows)
    click.echo(f"Rows: {plan.rows_before} → {plan.to.rows}, of snapshot {plan.to.snapshot_id}.")
    for partition, (start, end) in plan.to_read_again.items():
        again = f"{end - start} offsets, {start} to {end - 1}"
        click.echo(f"Partition {partition}: {again}, are read again by the next run.")


def _conclude(plan: Rollback) -> None:
    if plan.is_nothing:
        click.echo("The table is in this state already.")
    elif not plan.is_done:
        click.echo("Nothing was changed. With --yes it is.")
    else:
        click.echo(f"Rolled back. What was current is kept under the tag {plan.kept_as}.")
    if plan.is_before_rebase:
        click.echo(
            f"That is before a rebase. To go on, rebase it again: tableflow rebase {plan.topic}"
        )
    elif plan.suspended and plan.is_done:
        click.echo(f"The topic is suspended. Go on with: tableflow resume {plan.topic}")
