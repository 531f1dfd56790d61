"""`tableflow rebuild`: read a topic's log again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands.show import json_option, print_json, print_table, progress_bar
from tableflow_assets.settings.settings import Topic, load_settings

if TYPE_CHECKING:
    from tableflow_assets.pipeline import Committed, Pipeline


@click.command()
@click.argument("topic")
@click.option(
    "--window", help="Only this window's rows: 2026-11-16, or 2026-11-16-07:00 for an hour."
)
@click.option("--until", help="With --window: the last window of a range.")
@click.option(
    "--from-another-cluster",
    is_flag=True,
    help="Even if the table's rows are from another Kafka cluster than this one.",
)
@click.option("--yes", is_flag=True, help="Do not ask before another cluster's rows replace them.")
@json_option
def rebuild(
    topic: str,
    window: str | None,
    until: str | None,
    from_another_cluster: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Replace a table's rows by what the log holds, in one step; the old ones stay under a tag.

    Needed after a change of `mode`, after a topic was deleted and created again, or where somebody
    else wrote to the table. Readers see the old rows until the new ones are complete and verified.
    """
    from tableflow_assets.table.windows import rows_in
    from tableflow_assets.tableflow import Tableflow

    if until and not window:
        raise click.UsageError("--until needs --window")
    if from_another_cluster and window:
        raise click.UsageError("another cluster replaces the whole table: leave out --window")
    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    if following := tableflow.loaded_products.following(pipeline.topic.table):
        names = ", ".join(following)
        click.echo(f"These products are made of it and will be computed again: {names}.", err=True)
    if from_another_cluster and not yes:
        click.confirm(
            f"Replace the rows of {topic!r} with those that Kafka at {tableflow.log.bootstrap_servers}"
            " holds? The old ones stay under a tag until they expire.",
            abort=True,
            err=True,
        )
    if window:
        committed = _windows(pipeline, window, until or window)
    else:
        committed = _whole_table(pipeline, from_another_cluster)
    result = {
        "topic": topic,
        "records": committed.rows,
        "rows": rows_in(tableflow.existing_table(pipeline.topic)),
        "dead_letters": committed.dead_letters,
        "skipped": committed.skipped,
        "snapshot": str(committed.snapshots[-1]),
        "products": following,
    }
    if as_json:
        print_json(result)
    else:
        shown = {name: value for name, value in result.items() if name != "products"}
        print_table("Rebuilt", list(shown), [list(shown.values())])


def _whole_table(pipeline: Pipeline, from_another_cluster: bool) -> Committed:
    from tableflow_assets.operate.rebuild import rebuild

    with progress_bar() as progress:
        task = progress.add_task(pipeline.topic.name, total=None)

        def on_plan(more: int) -> None:
            total = progress.tasks[task].total or 0
            progress.update(task, total=total + more)

        return rebuild(
            pipeline,
            run_id="cli",
            on_plan=on_plan,
            on_commit=lambda step, _: progress.advance(task, step.size),
            from_another_cluster=from_another_cluster,
        )


def _windows(pipeline: Pipeline, first: str, last: str | None) -> Committed:
    from tableflow_assets.operate.rebuild_windows import rebuild_windows

    start, end = windows_from_to(pipeline.topic, first, last)
    return rebuild_windows(pipeline, start, end, run_id="cli")


def windows_from_to(topic: Topic, first: str, last: str | None) -> tuple[datetime, datetime]:
    """[start, end) of the windows that the user named."""
    step = timedelta(days=1) if topic.window == "day" else timedelta(hours=1)
    return _start_of(first), _start_of(last or first) + step


def _start_of(window: str) -> datetime:
    for shape in ("%Y-%m-%d", "%Y-%m-%d-%H:%M"):
        try:
            return datetime.strptime(window, shape).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise TableflowError(
        f"{window!r} is not a window.", "Write a day as 2026-11-16, an hour as 2026-11-16-07:00."
    )
