"""`tableflow tag`: names for states of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta

import click

from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.operate.moments import FORMS, moment
from tableflow_assets.settings.settings import load_settings

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _age(_context: click.Context, _option: click.Parameter, text: str | None) -> timedelta | None:
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d{1,7})\s*([mhdw]|minutes?|hours?|days?|weeks?)\s*", text)
    if not match:
        raise click.BadParameter("write a number with m, h, d or w, such as 90d")
    return timedelta(**{_UNITS[match[2][0]]: int(match[1])})


@click.command()
@click.argument("topic")
@click.argument("name", required=False)
@click.option("--at", "when", metavar="WHEN", help=f"Which state. Default: the current. {FORMS}.")
@click.option("--keep-for", callback=_age, metavar="AGE", help="E.g. 90d. Default: for ever.")
@click.option("--delete", "is_delete", is_flag=True, help="Remove the tag; the rows stay.")
@json_option
def tag(
    topic: str,
    name: str | None,
    when: str | None,
    keep_for: timedelta | None,
    is_delete: bool,
    as_json: bool,
) -> None:
    """Name a state of the table, so that it stays readable; without a name, list the tags."""
    from tableflow_assets.operate.tags import create_tag, delete_tag
    from tableflow_assets.tableflow import Tableflow

    if is_delete and (when or keep_for or not name):
        raise click.UsageError("--delete needs a name, and nothing else.")
    if not name and (when or keep_for):
        raise click.UsageError("A tag needs a name.")
    tableflow = Tableflow(load_settings())
    table = tableflow.existing_table(tableflow.table(topic))
    if not name:
        _list(topic, table.metadata.refs, as_json)
        return
    if is_delete:
        snapshot = delete_tag(tableflow.catalog, table, name)
    else:
        snapshot = create_tag(
            tableflow.catalog, table, name, moment(when) if when else None, keep_for
        )
    if as_json:
        result = {"topic": topic, "tag": name, "snapshot_id": snapshot, "deleted": is_delete}
        print_json(result)
    else:
        verb = "is gone from" if is_delete else "names"
        click.echo(f"{topic}: the tag {name} {verb} snapshot {snapshot}.")


def _list(topic: str, refs: Mapping[str, object], as_json: bool) -> None:
    from pyiceberg.table.refs import SnapshotRef, SnapshotRefType

    from tableflow_assets.table.snapshots import KEPT

    tags = [
        {
            "tag": name,
            "snapshot_id": ref.snapshot_id,
            "keep_for_days": ref.max_ref_age_ms and ref.max_ref_age_ms / 86_400_000,
        }
        for name, ref in sorted(refs.items())
        if isinstance(ref, SnapshotRef)
        and ref.snapshot_ref_type == SnapshotRefType.TAG
        and not name.startswith(f"{KEPT}_")  # one for every hour: `tableflow history` has them
    ]
    if as_json:
        print_json(tags)
    else:
        columns = ["tag", "snapshot_id", "keep_for_days"]
        print_table(f"Tags of {topic}", columns, [[row[c] for c in columns] for row in tags])
