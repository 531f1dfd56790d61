"""`tableflow rebuild`: read a topic's log again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.commands.show import (
    json_option,
    print_json,
    print_table,
    progress_bar,
    warn_of_products,
)
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
@click.option(
    "--lose-rows", is_flag=True, help="Even if the log no longer holds all rows of the table."
)
@click.option("--yes", is_flag=True, help="Do not ask before rows are lost.")
@json_option
def rebuild(
    topic: str,
    window: str | None,
    until: str | None,
    from_another_cluster: bool,
    lose_rows: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Replace a table's rows by what the log holds, in one step; the old ones stay under a tag.

    Needed after a change of `mode`, or where somebody else wrote to the table. Readers see the old rows
    until the new ones are complete and verified.

    Refused if the log no longer holds all that the table holds; then it says how many rows would be lost,
    and --lose-rows asks whether they may be. Where a topic has moved or was created again, `tableflow
    rebase` keeps them. The tag of the old rows stays until it is deleted.
    """
    from tableflow_assets.operate.rebuild import OLD_ROWS
    from tableflow_assets.table.snapshots import tags_of
    from tableflow_assets.table.windows import rows_in
    from tableflow_assets.tableflow import Tableflow

    if until and not window:
        raise click.UsageError("--until needs --window")
    if window and (from_another_cluster or lose_rows):
        raise click.UsageError("that takes a rebuild of the whole table: leave out --window")
    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    following = tableflow.loaded_products.following(pipeline.topic.table)
    warn_of_products(following)
    if window:
        committed = _windows(pipeline, window, until or window)
    else:
        if lose_rows and not yes:
            _ask(pipeline, from_another_cluster)
        committed = _whole_table(pipeline, from_another_cluster, lose_rows)
    table = tableflow.existing_table(pipeline.topic)
    # Their names end with the time, so that of the rows just replaced is the largest.
    kept_as = "" if window else max(tag for tag in tags_of(table) if tag.startswith(OLD_ROWS))
    result = {
        "topic": topic,
        "records": committed.rows,
        "rows": rows_in(table),
        "dead_letters": committed.dead_letters,
        "skipped": committed.skipped,
        "snapshot": str(committed.snapshots[-1]),
        "kept_as": kept_as,
        "products": following,
    }
    if as_json:
        print_json(result)
    else:
        shown = {name: value for name, value in result.items() if name != "products"}
        print_table("Rebuilt", list(shown), [list(shown.values())])
        if kept_as:
            click.echo(
                f"The old rows stay under their tag: tableflow tag {topic} {kept_as} --delete"
            )


def _ask(pipeline: Pipeline, from_another_cluster: bool) -> None:
    from tableflow_assets.operate.rebuild import at_stake

    name = pipeline.topic.name
    if lost := at_stake(pipeline, from_another_cluster=from_another_cluster):
        click.echo(f"Kafka at {pipeline.log.bootstrap_servers} does not hold {lost}.", err=True)
    else:
        click.echo("The log seems to hold all rows; what compaction removed shows later.", err=True)
    question = f"Replace the rows of {name!r} by those that it holds, and lose the others?"
    click.confirm(question, abort=True, err=True)


def _whole_table(pipeline: Pipeline, from_another_cluster: bool, lose_rows: bool) -> Committed:
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
            lose_rows=lose_rows,
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
