"""What an asset's page shows: Dagster's own metadata keys, in one place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.operate.maintenance.health import Health
from tableflow_assets.operate.schema_plan import SchemaPlan
from tableflow_assets.pipeline import Committed
from tableflow_assets.settings.settings import Topic
from tableflow_assets.settings.values import age_text
from tableflow_assets.table.formats import delta_root
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.schema_diff import SchemaDiff, type_text
from tableflow_assets.table.windows import rows_in

Metadata = dict[str, dg.MetadataValue | str | int]
# A list may have an entry for every file of a table; this many are shown.
LONGEST_LIST = 100


def table_definition_metadata(topic: Topic, namespace: str) -> Metadata:
    """Known without any server."""
    return {
        "dagster/table_name": f"{namespace}.{topic.table}",
        "dagster/storage_kind": topic.formats[0],
        "topic": topic.name,
        "window": topic.window,
        "mode": topic.mode,
        "dead_letter_table": dg.MetadataValue.asset(
            dg.AssetKey([namespace, topic.dead_letter_table])
        ),
        "bad_records": topic.bad_records,
        "formats": ", ".join(topic.formats),
        "partition_by": _partition_text(topic),
        "sort_by": ", ".join(topic.sort_by) or "not sorted",
        "retention": age_text(topic.retention) if topic.retention else "for ever",
        "maintenance": topic.maintenance or "never",
    }


def _partition_text(topic: Topic) -> str:
    if topic.is_keyed:
        return f"bucket({topic.key_buckets}, key)"
    return ", ".join(topic.partition_by)


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


def delta_metadata(table: Table, version: int) -> Metadata:
    return {"delta_version": version, "delta_path": dg.MetadataValue.path(delta_root(table))}


def window_metadata(rows: int | None, added: int) -> Metadata:
    """``rows``: None if counting them would take too long."""
    in_all: Metadata = {} if rows is None else {"dagster/partition_row_count": rows}
    return {**in_all, "rows_added": added}


def keyed_window_metadata(keys_changed: int) -> Metadata:
    return {"keys_changed": keys_changed}


def offsets_metadata(ends: Mapping[int, int]) -> Metadata:
    """A topic's end offsets, as the sensor sees them."""
    table = [dg.TableRecord({"partition": p, "end": end}) for p, end in sorted(ends.items())]
    return {"end_offset_total": sum(ends.values()), "end_offsets": dg.MetadataValue.table(table)}


def column_schema(schema: Schema) -> dg.TableSchemaMetadataValue:
    columns = [
        dg.TableColumn(name=field.name, type=type_text(field.field_type), description=field.doc)
        for field in schema.fields
    ]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def health_metadata(found: Health) -> Metadata:
    """What a table consists of, and what maintenance that calls for."""
    needs = [{"needed": need.kind, "why": need.why} for need in found.needs]
    unwell = [
        {
            "window": window.name,
            "files": window.files,
            "small_files": window.small_files,
            "bytes": window.bytes,
            "rows": window.rows,
            "dead_rows": window.dead_rows,
            "why": window.why,
        }
        for window in found.windows
        if window.remedy
    ]
    return {
        "files": sum(window.files for window in found.windows),
        "small_files": sum(window.small_files for window in found.windows),
        "bytes": sum(window.bytes for window in found.windows),
        "dead_rows": sum(window.dead_rows for window in found.windows),
        "snapshots": found.snapshots,
        "manifests": found.manifests,
        **({"needs": records_table(needs)} if needs else {}),
        **({"windows": records_table(unwell)} if unwell else {}),
    }


def maintenance_metadata(result: Mapping[str, Any]) -> Metadata:
    """A maintenance step's own report (``to_json``): its numbers as they are, its lists as tables."""
    entries: Metadata = {}
    for name, value in result.items():
        if isinstance(value, datetime):
            entries[name] = dg.MetadataValue.timestamp(value)
        elif isinstance(value, bool | int | float | str):
            entries[name] = value  # type: ignore[assignment]
        elif isinstance(value, Sequence) and value:
            rows = [item if isinstance(item, Mapping) else {name: item} for item in value]
            entries[name] = records_table(rows)
            if len(rows) > LONGEST_LIST:
                entries[f"{name}_in_all"] = len(rows)
    return entries


def records_table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Dagster's tables only take text and numbers, and need the same fields in every row."""
    records = [
        dg.TableRecord({name: _plain(value) for name, value in row.items()})
        for row in list(rows)[:LONGEST_LIST]
    ]
    return dg.MetadataValue.table(records)


def _plain(value: Any) -> str | int | float | bool:
    if isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Sequence):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


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
        [
            _code(change.path),
            change.what,
            _code(change.was),
            _code(change.becomes),
            _cell(change.why),
        ]
        for change in diff.changes
    ]
    table = [["column", "change", "from", "to", "why"], ["---"] * 5, *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def _code(text: str | None) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    """Names and comments come from outside: they must not break out of their cell or row."""
    return " ".join(text.split()).replace("|", "\\|")
