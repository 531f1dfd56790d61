"""`tableflow ledger`: what a table's snapshots say about the offsets that its rows come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tableflow_assets.commands.show import json_option, print_json, print_table
from tableflow_assets.settings.settings import Topic, load_settings

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from tableflow_assets.table.ledger import Entry


@click.command()
@click.argument("topic")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@json_option
def ledger(topic: str, limit: int, as_json: bool) -> None:
    """Which offsets a table has read, and the commits that brought them, newest first."""
    from tableflow_assets.table.ledger import read_entries
    from tableflow_assets.tableflow import Tableflow

    tableflow = Tableflow(load_settings())
    spec = tableflow.topic(topic)
    table = tableflow.existing_table(spec)
    head = _head(table, spec)
    entries = read_entries(table)
    newest = [_entry(snapshot, entry) for snapshot, entry in entries[:limit]]
    if as_json:
        print_json(head | {"entries": newest})
        return
    _show(head, newest)
    if len(entries) > limit:
        click.echo(f"{len(entries) - limit} older entries are not shown: --limit {len(entries)}")


def _head(table: Table, topic: Topic) -> dict[str, Any]:
    from tableflow_assets.table.create import MODE_PROPERTY
    from tableflow_assets.table.ledger import read_ledger
    from tableflow_assets.table.suspension import suspension_of

    entry = read_ledger(table).entry
    suspension = suspension_of(table, topic)
    return {
        "topic": entry.topic,
        "cluster_id": entry.cluster_id,
        "topic_id": entry.topic_id,
        "mode": table.properties.get(MODE_PROPERTY, "append"),
        "origin": entry.origin,
        "committed": entry.end,
        "lineage": entry.lineage,
        "epoch": entry.epoch,
        "earlier": [asdict(epoch) for epoch in entry.earlier],
        "lost": [dict(zip(("partition", "from", "to"), lost, strict=True)) for lost in entry.lost],
        "forgotten": len(entry.forgotten),
        "suspended": suspension.reason if suspension else None,
    }


def _entry(snapshot: Snapshot, entry: Entry) -> dict[str, Any]:
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    partitions = {
        partition: {"start": entry.start.get(partition, 0), "end": end}
        for partition, end in sorted(entry.end.items())
    }
    return {
        "snapshot_id": snapshot.snapshot_id,
        "committed_at": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, UTC).isoformat(),
        "kind": entry.kind,
        "run_id": entry.run_id,
        "partitions": partitions,
        "records": sum(offsets["end"] - offsets["start"] for offsets in partitions.values()),
        "rows_added": int(summary.get("added-records", 0)),
    }


def _show(head: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    lost = sum(span["to"] - span["from"] for span in head["lost"])
    facts = {
        "cluster": head["cluster_id"],
        "topic id": head["topic_id"],
        "mode": head["mode"],
        "origin": _offsets(head["origin"]),
        "committed": _offsets(head["committed"]),
        "lineage": head["lineage"] or "the first",
        **({"epoch": head["epoch"]} if head["epoch"] else {}),
        "lost": f"{lost} offsets" if lost else "nothing",
        "forgotten": head["forgotten"],
        "suspended": head["suspended"] or "no",
    }
    click.echo(f"{head['topic']}: " + " · ".join(f"{name} {fact}" for name, fact in facts.items()))
    columns = ["snapshot", "committed at (UTC)", "kind", "run", "offsets by partition"]
    rows = [
        [
            str(entry["snapshot_id"]),
            entry["committed_at"][:19].replace("T", " "),
            entry["kind"],
            entry["run_id"],
            _moved(entry["partitions"]),
            entry["records"],
            entry["rows_added"],
        ]
        for entry in entries
    ]
    print_table("Entries", [*columns, "records", "rows added"], rows)


def _offsets(by_partition: Mapping[int, int]) -> str:
    return " ".join(f"{partition}:{offset}" for partition, offset in sorted(by_partition.items()))


def _moved(partitions: Mapping[int, Mapping[str, int]]) -> str:
    return " ".join(f"{p}:{offsets['start']}→{offsets['end']}" for p, offsets in partitions.items())
