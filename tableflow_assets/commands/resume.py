"""`tableflow resume`: the end of a suspension."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import Suspended, TableflowError, UndecodableRecords
from tableflow_assets.commands.show import json_option, print_json
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.pipeline import Pipeline
    from tableflow_assets.source.plan import Plan

Lost = dict[int, tuple[int, int]]  # Kafka partition → offsets [from, to)


@click.command()
@click.argument("topic")
@click.option(
    "--accept-loss", is_flag=True, help="Go on after offsets that expired unread; recorded."
)
@click.option("--yes", is_flag=True, help="Do not ask before a loss is accepted.")
@json_option
def resume(topic: str, accept_loss: bool, yes: bool, as_json: bool) -> None:
    """End a topic's suspension, once its cause is mended; exit 1 if it is not."""
    from tableflow_assets.table.known_tables import refuse_a_vanished_table
    from tableflow_assets.table.suspension import clear
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    spec = tableflow.topic(topic)
    pipeline = tableflow.pipeline(spec)
    if tableflow.catalog.find(spec.table) is None:
        refuse_a_vanished_table(pipeline.state_dir, spec, tableflow.catalog.namespace)
    # While the topic is still suspended, so that no run can interfere.
    lost = _accept_loss(pipeline, yes) if accept_loss else {}
    suspension = clear(tableflow.catalog, spec)
    if suspension is None and not lost:
        _say(as_json, f"{topic} is not suspended.", {"topic": topic, "resumed": False})
        return
    next_plan = _plan(pipeline)
    decodes = suspension is not None and suspension.error == UndecodableRecords.__name__
    again = " The next run decodes the records again." if decodes else ""
    losses = "".join(f" Partition {p}: {_range(o)} are lost." for p, o in sorted(lost.items()))
    _say(
        as_json,
        f"{topic} goes on, with {next_plan.size} offsets to read.{losses}{again}",
        {
            "topic": topic,
            "resumed": True,
            "reason": suspension.reason if suspension else "",
            "lost": {str(partition): list(offsets) for partition, offsets in lost.items()},
            "to_read": next_plan.size,
        },
    )


def _accept_loss(pipeline: Pipeline, yes: bool) -> Lost:
    expired = _expired(pipeline)
    name = pipeline.topic.name
    if not expired:
        raise TableflowError(
            f"No offsets of {name!r} expired unread: there is no loss to accept.",
            f"Leave out --accept-loss: `tableflow resume {name}`.",
        )
    if not yes and sys.stdin.isatty():
        for partition, offsets in sorted(expired.items()):
            click.echo(f"{name} partition {partition}: {_range(offsets)} are lost.", err=True)
        click.confirm("Go on without them?", abort=True, err=True)
    from tableflow_assets.operate.accept_loss import accept_loss

    return accept_loss(pipeline)


def _expired(pipeline: Pipeline) -> Lost:
    from tableflow_assets.source.plan import lost_before
    from tableflow_assets.table.ledger import read_ledger

    table = pipeline.catalog.find(pipeline.topic.table)
    if table is None:
        return {}
    topic = pipeline.log.identify(pipeline.topic.name)
    return lost_before(pipeline.log, topic, read_ledger(table))


def _plan(pipeline: Pipeline) -> Plan:
    """What the next run will do; if the cause persists, the topic is suspended again."""
    try:
        return pipeline.plan()
    except Suspended as error:
        raise Suspended(f"The cause is still there. {error.problem}", error.next_step) from error


def _range(offsets: tuple[int, int]) -> str:
    start, end = offsets
    return f"{end - start} offsets, {start} to {end - 1},"


def _say(as_json: bool, text: str, value: dict[str, object]) -> None:
    if as_json:
        print_json(value)
    else:
        click.echo(text)
