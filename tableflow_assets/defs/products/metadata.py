"""What a product's page shows: what it is, by its .sql file, and what a run did to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import dagster as dg
from pyiceberg.table import Table

from tableflow_assets.defs.metadata import Metadata, records_table
from tableflow_assets.defs.names import input_key
from tableflow_assets.product.lineage import column_lineage
from tableflow_assets.product.products import Product
from tableflow_assets.product.quality import Finding
from tableflow_assets.product.recheck import Recheck
from tableflow_assets.product.runner import RunResult
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.schema_diff import type_text
from tableflow_assets.table.windows import bound_moment, rows_in

LINEAGE = "dagster/column_lineage"


def product_description(product: Product) -> str:
    """The header's description, with the outcomes of the edge cases it lists."""
    header = product.definition.header
    outcomes = [
        f"- **{case}**: {' '.join(outcome.split())}" for case, outcome in header.outcomes.items()
    ]
    return "\n".join([header.description, "", *outcomes])


def product_definition_metadata(product: Product, namespace: str) -> Metadata:
    """Known without any server."""
    header, options = product.definition.header, product.options
    return {
        "dagster/table_name": f"{namespace}.{product.name}",
        "dagster/storage_kind": options.formats[0],
        LINEAGE: column_lineage_metadata(product, namespace),
        "sql": dg.MetadataValue.md(f"```sql\n{product.definition.sql}\n```"),
        "key": ", ".join(header.key),
        "event_time": header.event_time,
        "lateness": f"{header.lateness}",
        "mode": header.mode,
        "formats": ", ".join(options.formats),
        "maintenance": options.maintenance or "never",
    }


def column_lineage_metadata(product: Product, namespace: str) -> dg.TableColumnLineageMetadataValue:
    keys = {source.name: input_key(source, namespace) for source in product.inputs}
    deps = {
        column: [dg.TableColumnDep(keys[name], of) for name, of in origins]
        for column, origins in column_lineage(product).items()
    }
    return dg.MetadataValue.column_lineage(dg.TableColumnLineage(deps))


def product_run_metadata(
    product: Product, namespace: str, table: Table, done: RunResult
) -> Metadata:
    """After a run: what it changed, and what the table is now."""
    ledger = read_ledger(table)
    inputs = [{"table": name, "snapshot_id": str(at)} for name, at in ledger.entry.inputs.items()]
    watermark = _watermark(product, table)
    return {
        "dagster/row_count": rows_in(table),
        "dagster/column_schema": _columns(product, table),
        LINEAGE: column_lineage_metadata(product, namespace),
        "dagster/uri": table.location(),
        "rows_added": done.rows_added,
        "rows_removed": done.rows_removed,
        "values_recomputed": _recomputed(done),
        "snapshot_id": str(ledger.head),
        "inputs": records_table(inputs),
        **({"watermark": dg.MetadataValue.timestamp(watermark)} if watermark else {}),
    }


def _columns(product: Product, table: Table) -> dg.TableSchemaMetadataValue:
    """Each column with its origin: open-source Dagster shows lineage nowhere else."""
    tables = {source.name: source.table for source in product.inputs}
    lineage = {
        column: ", ".join(f"{tables[name]}.{of}" for name, of in origins)
        for column, origins in column_lineage(product).items()
    }
    columns = [
        dg.TableColumn(
            name=field.name,
            type=type_text(field.field_type),
            description=" ".join(_about(field.doc, lineage.get(field.name))) or None,
        )
        for field in table.schema().fields
    ]
    return dg.MetadataValue.table_schema(dg.TableSchema(columns=columns))


def _about(doc: str | None, come_from: str | None) -> Iterator[str]:
    if doc:
        yield doc
    if come_from:
        yield f"From {come_from}."


def _recomputed(result: RunResult) -> int | str:
    if result.did_nothing:
        return 0
    return "all" if result.values_affected is None else result.values_affected


def _watermark(product: Product, table: Table) -> datetime | None:
    """The newest event time in the files minus the lateness: few older records are still to come."""
    header = product.definition.header
    time = table.schema().find_field(header.event_time).field_id
    newest = [
        moment
        for task in table.scan().plan_files()
        if (moment := bound_moment(task.file.upper_bounds, time)) is not None
    ]
    return max(newest) - header.lateness if newest else None


def finding_metadata(found: Finding) -> Metadata:
    rows = {"rows": records_table(found.rows)} if found.rows else {}
    return {"offending": found.offending, "snapshot_id": str(found.snapshot), **rows}


def recheck_metadata(found: Recheck) -> Metadata:
    examples = {"examples": _examples(found)} if found.examples else {}
    return {
        "rows_compared": found.rows_compared,
        "missing": found.missing,
        "unexpected": found.unexpected,
        "different": found.different,
        **examples,
    }


def _examples(comparison: Recheck) -> dg.TableMetadataValue:
    """The same fields in every row, as Dagster's tables demand."""
    names = list(dict.fromkeys(name for example in comparison.examples for name in example))
    return records_table(
        {name: example.get(name) for name in names} for example in comparison.examples
    )
