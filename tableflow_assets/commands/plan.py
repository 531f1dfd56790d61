"""`tableflow plan`: what a schema version does to a table, before it does it."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tableflow_assets.base.errors import SchemaNotFound, ServerUnreachable
from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.operate.schema_plan import SchemaPlan
    from tableflow_assets.tableflow import Tableflow


@click.command()
@click.argument("topic")
@click.option(
    "--schema",
    "candidate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A schema that is not registered yet: .avsc, .proto or .json.",
)
@json_option
def plan(topic: str, candidate: Path | None, as_json: bool) -> None:
    """What the newest schema does to a topic's table; exit 1 if some of it is refused."""
    from tableflow_assets.operate.schema_plan import plan_schema
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    try:
        planned = plan_schema(
            tableflow.topic(topic),
            tableflow.registry,
            tableflow.catalog,
            tableflow.settings.state_dir,
            candidate,
        )
    except SchemaNotFound:
        _refuse_an_unknown_topic(tableflow, topic)
        raise
    if as_json:
        print_json(planned.to_json())
    else:
        _show(planned)
    sys.exit(0 if planned.diff.fits else 1)


def _refuse_an_unknown_topic(tableflow: Tableflow, topic: str) -> None:
    """A mistyped name has no schema either: that it is unknown says more, where Kafka can be asked."""
    with suppress(ServerUnreachable):
        tableflow.log.identify(topic)


def _show(planned: SchemaPlan) -> None:
    schema, table = _schema(planned), _table(planned)
    if not planned.diff.changes:
        click.echo(f"{schema} changes nothing: {table} is in step.")
        return
    names = ["column", "change", "from", "to", "why"]
    rows = [[one.path, one.what, one.was, one.becomes, one.why] for one in planned.diff.changes]
    print_table(f"{schema} → {table}: {planned.diff.summary()}", names, rows)
    if not planned.diff.fits:
        click.echo(
            "With a version that is refused, the topic is suspended; its table stays as it is."
        )


def _schema(planned: SchemaPlan) -> str:
    if planned.subject is None:
        return f"The settings of {planned.topic}"
    status = "" if planned.is_registered else " (not registered)"
    return f"{planned.subject} version {planned.version}{status}"


def _table(planned: SchemaPlan) -> str:
    return planned.table if planned.has_table else f"{planned.table} (to be made)"
