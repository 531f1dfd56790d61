"""`tableflow plan`: what a schema version would do to a table."""

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
        schema_plan = plan_schema(
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
        print_json(schema_plan.to_json())
    else:
        _show(schema_plan)
    sys.exit(0 if schema_plan.diff.fits else 1)


def _refuse_an_unknown_topic(tableflow: Tableflow, topic: str) -> None:
    """A mistyped name has no schema either, but "unknown topic" says more, if Kafka answers."""
    with suppress(ServerUnreachable):
        tableflow.log.identify(topic)


def _show(schema_plan: SchemaPlan) -> None:
    schema, table = _schema(schema_plan), _table(schema_plan)
    if not schema_plan.diff.changes:
        click.echo(f"{schema} changes nothing: {table} is in step.")
        return
    names = ["column", "change", "from", "to", "why"]
    rows = [
        [change.path, change.what, change.was, change.becomes, change.why]
        for change in schema_plan.diff.changes
    ]
    print_table(f"{schema} → {table}: {schema_plan.diff.summary()}", names, rows)
    if not schema_plan.diff.fits:
        click.echo(
            "With a version that is refused, the topic is suspended; its table stays as it is."
        )


def _schema(schema_plan: SchemaPlan) -> str:
    if schema_plan.subject is None:
        return f"The settings of {schema_plan.topic}"
    status = "" if schema_plan.is_registered else " (not registered)"
    return f"{schema_plan.subject} version {schema_plan.version}{status}"


def _table(schema_plan: SchemaPlan) -> str:
    return schema_plan.table if schema_plan.has_table else f"{schema_plan.table} (to be made)"
