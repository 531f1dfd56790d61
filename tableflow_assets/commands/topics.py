"""Commands about topics and their tables."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.progress import Progress

from tableflow_assets.base.errors import ServerUnreachable, StackError, TableflowError
from tableflow_assets.commands.published import warn_of_failures
from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.status import TopicStatus
    from tableflow_assets.pipeline import Committed, Pipeline

AT_ONCE = 8  # topics that are asked about
topics_argument = click.argument("topics", nargs=-1)


@click.command()
@topics_argument
@json_option
def status(topics: tuple[str, ...], as_json: bool) -> None:
    """How far each table is behind its topic, its Delta log behind the table, and what it needs."""
    from tableflow_assets.operate.status import status as status_of
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    log, catalog, state_dir = tableflow.log, tableflow.catalog, tableflow.settings.state_dir
    chosen = tableflow.topics(topics)
    with ThreadPoolExecutor(AT_ONCE) as pool:  # most of it is waiting for answers
        found = list(pool.map(lambda topic: status_of(log, catalog, topic, state_dir), chosen))
    if as_json:
        print_json([one.to_json() for one in found])
        return
    rows = [
        [
            one.topic,
            one.state,
            one.lag,
            " ".join(f"{p.partition}:{p.committed}/{p.end}" for p in one.partitions),
            one.rows,
            one.files,
            _delta_text(one),
            ", ".join(one.maintenance),
            one.last_commit.strftime("%Y-%m-%d %H:%M:%S") if one.last_commit else None,
            None if one.freshness_seconds is None else f"{one.freshness_seconds:.0f} s",
        ]
        for one in found
    ]
    columns = ["topic", "state", "lag", "committed/end by partition"]
    columns += ["rows", "files", "Delta", "needs", "last commit (UTC)", "freshness"]
    print_table("Topics", columns, rows)
    for one in found:
        if one.reason:
            since = f" since {one.since}" if one.since else ""
            problem = f"[red]{one.topic}[/]{since}: {escape(one.reason)}"
            console.print(problem, highlight=False, soft_wrap=True)
        if one.resolve:
            console.print(f"  Resolve: {escape(one.resolve)}", highlight=False, soft_wrap=True)
        if one.delta and one.delta.problem:
            problem = f"[red]{one.topic}[/], Delta: {escape(one.delta.problem)}"
            console.print(problem, highlight=False, soft_wrap=True)


def _delta_text(status: TopicStatus) -> str | None:
    """Its version, and how far that is behind."""
    if (delta := status.delta) is None:
        return None
    if delta.problem:
        return "trouble"
    version = "none yet" if delta.version < 0 else str(delta.version)
    return f"{version} ({delta.behind} behind)" if delta.behind else version


@click.command()
@topics_argument
@click.option("--sample", default=0, metavar="N", help="Compare N rows value by value, too.")
@click.option("--seed", default=0, help="Another seed samples other rows.")
@json_option
def verify(topics: tuple[str, ...], sample: int, seed: int, as_json: bool) -> None:
    """Compare tables with their topics, offset by offset; exit 1 on any difference."""
    from tableflow_assets.tableflow import Tableflow
    from tableflow_assets.verify.verify import verify as verify_topic

    tableflow = Tableflow(load_settings())
    results = []
    with progress_bar() as progress:
        for topic in tableflow.topics(topics):
            end = tableflow.log.end(tableflow.log.identify(topic.name))
            task = progress.add_task(topic.name, total=sum(end.values()))
            results += verify_topic(
                tableflow.log,
                tableflow.catalog,
                topic,
                registry=tableflow.registry,
                sample=sample,
                seed=seed,
                on_progress=lambda n, task=task: progress.advance(task, n),  # type: ignore[misc]
            )
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        names = ["topic", "partition", "start", "committed", "expected", "rows", "dead_letters"]
        names += ["skipped", "dropped", "missing", "duplicated", "unexpected"]
        names += [*(["sampled", "differing"] if sample else []), "ok"]
        shown = [result.to_json() for result in results]
        print_table("Table against log", names, [[row[name] for name in names] for row in shown])
        for result in results:
            for problem in (result.reason, *result.differences):
                if problem:
                    where = f"{result.topic} {result.partition}: {problem}"
                    console.print(where, markup=False, highlight=False, soft_wrap=True)
    sys.exit(0 if all(result.ok for result in results) else 1)


@click.command()
@topics_argument
@json_option
def materialize(topics: tuple[str, ...], as_json: bool) -> None:
    """Bring tables up to the end of their topics (what Dagster's runs do)."""
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    rows, failures = [], {}
    with progress_bar() as progress:
        chosen = tableflow.topics(topics)
        for topic in chosen:
            try:
                pipeline = tableflow.pipeline(topic)
                done = _materialize(pipeline, progress)
            except (ServerUnreachable, StackError):
                raise
            except TableflowError as error:
                if len(chosen) == 1:
                    raise
                failures[topic.name] = error  # this topic's own; the others go on
                continue
            rows.append([topic.name, done.rows, done.dead_letters, len(done.snapshots)])
            warn_of_failures(topic.name, pipeline.publish())
    columns = ["topic", "rows", "dead_letters", "commits"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table("Materialized", columns, rows)
    for name, failure in failures.items():
        click.secho(f"{name}: {failure}", fg="red", err=True)
    sys.exit(1 if failures else 0)


def _materialize(pipeline: Pipeline, progress: Progress) -> Committed:
    planned = pipeline.plan()
    task = progress.add_task(pipeline.topic.name, total=planned.size)
    return pipeline.materialize(
        planned, run_id="cli", on_commit=lambda step, _: progress.advance(task, step.size)
    )
