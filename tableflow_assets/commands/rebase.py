"""`tableflow rebase`: a table goes on with another log, and keeps its rows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tableflow_assets.commands.show import counted, json_option, print_json
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.rebase import Rebase, Start


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    metavar="WHERE",
    help="Where in the new log to begin: earliest, end, or a time such as 2026-11-16T07:30.",
)
@click.option(
    "--from-another-cluster",
    is_flag=True,
    help="Even if the table's rows are from another Kafka cluster than this one.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rebase(
    topic: str,
    start: str | None,
    from_another_cluster: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let a table go on with another log, and keep its rows: the topic has moved, or was created again.

    What the table holds is no longer compared with a log from then on; new records are, as ever. The last
    state from the old log stays under a tag. Without --yes and without a terminal to ask on, nothing is
    done.
    """
    from tableflow_assets.operate import rebase as operation
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    plan = operation.find(pipeline, _start(start), from_another_cluster=from_another_cluster)
    is_asked = not (yes or dry_run or as_json or plan.is_nothing) and sys.stdin.isatty()
    if is_asked:
        _show(plan)
        click.confirm("Rebase?", abort=True, err=True)
    if (yes or is_asked) and not dry_run:
        plan = operation.rebase(pipeline, plan, run_id="cli")
    if as_json:
        print_json(plan.to_json())
        return
    if not is_asked:
        _show(plan)
    _conclude(plan)


def _start(text: str | None) -> Start | None:
    from tableflow_assets.operate.moments import moment

    if text is None:
        return None
    places: dict[str, Start] = {"earliest": "earliest", "end": "end"}
    if text in places:
        return places[text]
    if (time := moment(text).time) is None:
        raise click.UsageError(f"--from {text}: write earliest, end, or a time.")
    return time


def _show(plan: Rebase) -> None:
    if plan.is_nothing:
        return
    topic = plan.topic
    click.echo(
        f"{topic.name}: the table keeps its {counted(plan.rows, 'row')}, and goes on with the topic"
        f" {topic.topic_id} of the cluster {topic.cluster_id}, as epoch {plan.epoch}."
    )
    for partition, begin in sorted(plan.origin.items()):
        start, end = plan.skipped.get(partition, (begin, begin))
        skipped = f"; {end - start} offsets before it are left out" if end > start else ""
        behind = max(0, plan.end.get(partition, begin) - begin)
        click.echo(f"Partition {partition}: from offset {begin}, {behind} to read{skipped}.")
    if plan.dead_letters:
        letters = counted(plan.dead_letters, "dead letter")
        click.echo(f"Of the old log, {letters} can no longer be replayed; their table keeps them.")
    if plan.erased_keys:
        keys = counted(plan.erased_keys, "erased key")
        click.echo(f"Records of {keys} that the new log holds by now are left out.")


def _conclude(plan: Rebase) -> None:
    if plan.is_nothing:
        click.echo(f"The table of {plan.topic.name} reads this log already.")
    elif not plan.is_done:
        click.echo("Nothing was changed. With --yes it is.")
    else:
        click.echo(
            f"Rebased. The last state from the old log is kept under the tag {plan.kept_as}."
        )
