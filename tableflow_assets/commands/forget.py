"""`tableflow forget`: the erasure of a key."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.settings.settings import load_settings

if TYPE_CHECKING:
    from tableflow_assets.decode.key_text import Form
    from tableflow_assets.operate.forget import Report


@click.command()
@click.argument("topic")
@click.option("--key", "typed", required=True, help="The records' key, as text.")
@click.option("--key-hex", "is_hex", is_flag=True, help="The key is given as its bytes, in hex.")
@click.option(
    "--key-json",
    "is_json",
    is_flag=True,
    help="The key is given as JSON: for keys with an Avro schema.",
)
@click.option("--yes", is_flag=True, help="Erase. Without it: only show what would be erased.")
@json_option
def forget(topic: str, typed: str, is_hex: bool, is_json: bool, yes: bool, as_json: bool) -> None:
    """Erase all records of a key from the table, its dead letters and old snapshots."""
    from tableflow_assets.operate import forget as erasing
    from tableflow_assets.tableflow import Tableflow

    if is_hex and is_json:
        raise click.UsageError("--key-hex and --key-json exclude each other.")
    form: Form = "hex" if is_hex else "json" if is_json else "text"
    tableflow = Tableflow(load_settings())
    pipeline = tableflow.pipeline(tableflow.topic(topic))
    if not yes:
        report = erasing.find(pipeline, typed, form)
        _show(report, as_json)
        may_ask = not as_json and sys.stdin.isatty() and not report.found_nothing
        if not may_ask or not click.confirm("Erase it? There is no way back.", err=True):
            return
    _show(erasing.forget(pipeline, typed, form, run_id="cli"), as_json)


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report.to_json())
        return
    columns = ["from", "rows", "files with them", "snapshots", "tags and branches"]
    matches = {"table": report.table, "dead letters": report.dead_letters}
    rows = [
        [name, match.rows, match.files, match.snapshots, " ".join(match.refs)]
        for name, match in matches.items()
    ]
    title = "Erased" if report.erased else "Would be erased"
    print_table(f"{title}: a key of {report.topic}", columns, rows)
    _show_log(report)
    if not report.erased and not report.found_nothing:
        click.echo("Nothing was erased. With --yes it is.")


def _show_log(report: Report) -> None:
    if not report.log:
        click.echo("The Kafka log holds no record of it.")
        return
    columns = ["partition", "records", "not read yet", "first offsets"]
    rows = [
        [
            partition.partition,
            partition.records,
            partition.unread,
            ", ".join(map(str, partition.first_offsets)),
        ]
        for partition in report.log
    ]
    print_table("Remains in the Kafka log", columns, rows)
    click.echo(
        "They stay in the log until retention removes them or, in a compacted topic, a tombstone"
        " with the same key does."
    )
    if any(partition.unread for partition in report.log):
        click.echo("Records that are not read yet will land in the table: run it again then.")
