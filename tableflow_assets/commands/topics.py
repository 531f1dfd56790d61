"""Commands about topics and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.markup import escape
from rich.text import Text

from tableflow_assets.commands.apart import each_table, leave
from tableflow_assets.commands.published import warn_of_failures
from tableflow_assets.commands.show import (
    console,
    json_option,
    print_json,
    print_table,
    progress_bar,
)
from tableflow_assets.commands.troubles import tell, troubles
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from rich.progress import Progress

    from tableflow_assets.operate.status import TopicStatus
    from tableflow_assets.pipeline import Committed, Pipeline
    from tableflow_assets.settings.settings import Topic
    from tableflow_assets.verify.result import PartitionResult

topics_argument = click.argument("topics", nargs=-1)


@click.command()
@topics_argument
@json_option
def status(topics: tuple[str, ...], as_json: bool) -> None:
    """How far each table is behind its topic, its Delta log behind the table, and what it needs."""
    from tableflow_assets.operate.status import statuses as statuses_of
    from tableflow_assets.stack.state import StackState
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    log, catalog, state_dir = tableflow.log, tableflow.catalog, tableflow.settings.state_dir
    specs = tableflow.topics(topics)
    statuses = statuses_of(log, catalog, specs, state_dir)
    if as_json:
        print_json([status.to_json() for status in statuses])
        return
    rows = [
        [
            status.topic,
            _state_text(status),
            status.lag,
            _age_text(status),
            " ".join(f"{p.partition}:{p.committed}/{p.end}" for p in status.partitions),
            status.rows,
            status.files,
            _delta_text(status),
            ", ".join(status.maintenance),
            status.last_commit.strftime("%Y-%m-%d %H:%M:%S") if status.last_commit else None,
        ]
        for status in statuses
    ]
    columns = ["topic", "state", "lag", "oldest unread", "committed/end by partition"]
    columns += ["rows", "files", "Delta", "needs", "last commit (UTC)"]
    print_table("Topics", columns, rows)
    for status in statuses:
        if status.reason:
            since = f" since {status.since}" if status.since else ""
            problem = f"[red]{status.topic}[/]{since}: {escape(status.reason)}"
            console.print(problem, highlight=False, soft_wrap=True)
        if status.resolve:
            console.print(f"  Resolve: {escape(status.resolve)}", highlight=False, soft_wrap=True)
        if status.delta and status.delta.problem:
            problem = f"[red]{status.topic}[/], Delta: {escape(status.delta.problem)}"
            console.print(problem, highlight=False, soft_wrap=True)
    tell(troubles(tableflow.settings, StackState.load(state_dir)))


def _state_text(status: TopicStatus) -> Text:
    colours = {"current": "green", "late": "yellow", "suspended": "red", "error": "red"}
    state = "late" if status.state == "behind" and status.is_late else status.state
    return Text(state, colours.get(state, ""))


def _age_text(status: TopicStatus) -> str | None:
    """Of the oldest unread record, in a unit that one can grasp."""
    if not status.lag:
        return None
    if (age := status.oldest_unread_seconds) is None:
        return "unknown"
    for unit, seconds in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if age >= 2 * seconds:
            return f"{age / seconds:.0f} {unit}"
    return f"{age:.0f} s"


def _delta_text(status: TopicStatus) -> str | None:
    """The Delta version, and how far behind it is."""
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
@click.option("--deep", is_flag=True, help="Compare all rows value by value, too.")
@json_option
def verify(topics: tuple[str, ...], sample: int, seed: int, deep: bool, as_json: bool) -> None:
    """Compare tables with their topics, offset by offset; exit 1 on any difference."""
    from tableflow_assets.tableflow import Tableflow
    from tableflow_assets.verify.verify import verify as verify_topic

    tableflow = Tableflow(load_settings())
    with progress_bar() as progress:

        def compare(topic: Topic) -> list[PartitionResult]:
            end = tableflow.log.end(tableflow.log.identify(topic.name))
            task = progress.add_task(topic.name, total=sum(end.values()))
            values = progress.add_task(f"{topic.name}, values", total=None, visible=deep)
            return verify_topic(
                tableflow.log,
                tableflow.catalog,
                topic,
                registry=tableflow.registry,
                sample=sample,
                seed=seed,
                deep=deep,
                on_progress=lambda count: progress.advance(task, count),
                on_compared=lambda count, total: progress.update(
                    values, advance=count, total=total
                ),
            )

        specs, state_dir = tableflow.topics(topics), tableflow.settings.state_dir
        outcomes = each_table(specs, lambda topic: topic.name, compare, state_dir)
    results = [result for of_topic in outcomes.answers.values() for result in of_topic]
    if as_json:
        print_json([result.to_json() for result in results])
    else:
        names = ["topic", "partition", "start", "committed", "expected", "rows", "dead_letters"]
        names += ["skipped", "dropped", "missing", "duplicated", "unexpected"]
        names += [*(["sampled", "differing"] if sample or deep else [])]
        names += [*(["earlier"] if any(result.earlier for result in results) else []), "ok"]
        rows = [result.to_json() for result in results]
        print_table("Table against log", names, [[row[name] for name in names] for row in rows])
        for result in results:
            for problem in (result.reason, *result.differences):
                if problem:
                    line = f"{result.topic} {result.partition}: {problem}"
                    console.print(line, markup=False, highlight=False, soft_wrap=True)
    is_wrong = not all(result.ok for result in results)
    leave(len(outcomes.answers), outcomes.failures, is_wrong=is_wrong)


@click.command()
@topics_argument
@json_option
def materialize(topics: tuple[str, ...], as_json: bool) -> None:
    """Bring tables up to the end of their topics (what Dagster's runs do)."""
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    with progress_bar() as progress:

        def bring_up(topic: Topic) -> list[object]:
            pipeline = tableflow.pipeline(topic)
            committed = _materialize(pipeline, progress)
            warn_of_failures(topic.name, pipeline.publish())
            return [topic.name, committed.rows, committed.dead_letters, len(committed.snapshots)]

        specs, state_dir = tableflow.topics(topics), tableflow.settings.state_dir
        outcomes = each_table(specs, lambda topic: topic.name, bring_up, state_dir)
    rows = list(outcomes.answers.values())
    columns = ["topic", "rows", "dead_letters", "commits"]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table("Materialized", columns, rows)
    leave(len(rows), outcomes.failures)


def _materialize(pipeline: Pipeline, progress: Progress) -> Committed:
    plan = pipeline.plan()
    task = progress.add_task(pipeline.topic.name, total=plan.size)
    return pipeline.materialize(
        plan, run_id="cli", on_commit=lambda step, _: progress.advance(task, step.size)
    )
