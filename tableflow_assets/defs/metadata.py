"""What an asset's page shows: Dagster's own metadata keys, in one place."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import dagster as dg
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.pipeline import Committed
from tableflow_assets.schema_plan import SchemaPlan
from tableflow_assets.settings import Topic
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.schema_diff import SchemaDiff, type_text
from tableflow_assets.table.windows import rows_in

Metadata = dict[str, dg.MetadataValue | str | int]


def table_definition_metadata(topic: Topic, namespace: str) -> Metadata:
    """Known without any server."""
    return {
        "dagster/table_name": f"{namespace}.{topic.table}",
        "dagster/storage_kind": "iceberg",
        "topic": topic.name,
        "window": topic.window,
        "mode": topic.mode,
        "bad_records": topic.bad_records,
    }


def commit_metadata(table: Table, committed: Committed) -> Metadata:
    """After a run: what it brought, and what the table is now."""
    ledger = read_ledger(table)
    return {
        "dagster/row_count": rows_in(table),
        "dagster/column_schema": column_schema(table.schema()),
        "dagster/uri": table.location(),
        "rows_committed": committed.rows,
        "dead_letters": committed.dead_letters,
        "skipped": committed.skipped,
        "commits": len(committed.snapshots),
        "snapshot_id": str(ledger.head),
        "offsets": dg.MetadataValue.table(
            [
                dg.TableRecord({"partition": p, "start": ledger.entry.start[p], "end": end})
                for p, end in sorted(ledger.committed.items())
            ]
        ),
        "committed_at": dg.MetadataValue.timestamp(
            datetime.fromtimestamp(ledger.committed_at_ms / 1000, UTC)
        ),
    }


def window_metadata(rows: int, added: int) -> Metadata:
    return {"dagster/partition_row_count": rows, "rows_added": added}


def keyed_window_metadata(keys_changed: int) -> Metadata:
    return {"keys_changed": keys_changed}


def offsets_metadata(ends: Mapping[int, int]) -> Metadata:
    """Of a topic, as the sensor sees it."""
    table = [dg.TableRecord({"partition": p, "end": end}) for p, end in sorted(ends.items())]
    return {"end_offset_total": sum(ends.values()), "end_offsets": dg.MetadataValue.table(table)}


def column_schema(schema: Schema) -> dg.TableSchemaMetadataValue:
    columns = [
        dg.TableColumn(name=field.name, type=type_text(field.field_type), description=field.doc)
        for field in schema.fields
    ]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def schema_diff_metadata(planned: SchemaPlan) -> Metadata:
    return {
        "schema_version": planned.version,
        "refused": len(planned.diff.refused),
        "changes": dg.MetadataValue.md(_markdown(planned.diff)),
    }


def _markdown(diff: SchemaDiff) -> str:
    if not diff.changes:
        return "The table is in step with the registry."
    rows = [
        [_code(one.path), one.what, _code(one.was), _code(one.becomes), _cell(one.why)]
        for one in diff.changes
    ]
    table = [["column", "change", "from", "to", "why"], ["---"] * 5, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _code(text: str | None) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    """Names and comments come from outside: none may end the cell, or the row, that it is in."""
    return " ".join(text.split()).replace("|", "\\|")
