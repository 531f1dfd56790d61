"""`tableflow bench commit`, `live` and `topics`: what small commits, a running stack and many topics cost."""

from __future__ import annotations

from typing import Any

import click

from tableflow_assets.commands.show import json_option, print_json, print_table, progress_bar
from tableflow_assets.settings.settings import load_settings


@click.command()
@click.option("--records", default=200, show_default=True, help="Records of a commit.")
@click.option("--partitions", default=2, show_default=True, help="Of the Kafka topic.")
@click.option(
    "--mode", type=click.Choice(["append", "upsert"]), default="append", show_default=True
)
@click.option("--warm-up", default=5, show_default=True, help="Commits before those that count.")
@click.option("--commits", default=20, show_default=True, help="Commits that count.")
@json_option
def commit(
    records: int, partitions: int, mode: Any, warm_up: int, commits: int, as_json: bool
) -> None:
    """What a small commit costs in CPU seconds, by server of the embedded stack."""
    from tableflow_assets.bench.commit import measure_commits

    with progress_bar() as progress:
        result = measure_commits(
            load_settings(), records, partitions, mode, warm_up, commits, progress
        )
    if as_json:
        print_json(result)
        return
    print_table(
        f"A commit of {records} records: {result['cpu_seconds']} CPU seconds,"
        f" {result['median_seconds']} s",
        ["server", "CPU seconds"],
        [[name, seconds] for name, seconds in result["cpu_seconds_by_server"].items()],
    )


LAB_PROBES = (
    "payments",
    "shiftleft.public.orders",
    "clickstream",
    "bookings",
    "riverhotel.cdc.customer",
)


@click.command()
@click.option("--minutes", default=10.0, show_default=True, help="How long to look.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    default=LAB_PROBES,
    help="A lab's topic to send records to. May be repeated; default: five of them.",
)
@json_option
def live(minutes: float, topics: tuple[str, ...], as_json: bool) -> None:
    """A running stack as it is: freshness, cores, products' lag, runs, growth of its state.

    Sends a record to each of five topics every ten to twenty seconds, and awaits it in the table.
    """
    from tableflow_assets.bench.live import measure_live

    with progress_bar() as progress:
        task = progress.add_task("seconds", total=minutes * 60)
        result = measure_live(
            load_settings(),
            minutes,
            topics,
            lambda seconds: progress.update(task, completed=seconds),
        )
    _show(f"{minutes:g} minutes of a running stack", result, as_json)


@click.command()
@click.option("--topics", default=100, show_default=True, help="Topics, of a partition each.")
@click.option("--busy", default=10, show_default=True, help="Those to which records come.")
@click.option("--rate", default=10.0, show_default=True, help="Records a second, in each of these.")
@click.option("--minutes", default=2.0, show_default=True, help="How long records come.")
@json_option
def topics(topics: int, busy: int, rate: float, minutes: float, as_json: bool) -> None:
    """Many topics, of which few are busy: how old unread records get, and what the idle ones cost.

    Makes new topics and tables. Then this process does what the staying run does, and a tick of Dagster's
    sensor over all of them is timed. Best on a stack without Dagster: tableflow stack up --no-dagster.
    """
    from tableflow_assets.bench.topics import measure_topics

    with progress_bar() as progress:
        result = measure_topics(load_settings(), topics, busy, rate, minutes, progress)
    _show(f"{topics} topics, {busy} of them busy", result, as_json)


def _show(title: str, result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(result)
    else:
        print_table(title, ["", ""], [[name, _as_text(value)] for name, value in result.items()])


def _as_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return str(value)
