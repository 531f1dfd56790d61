"""The status of a product: whether its inputs have changed since, and what its table holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyiceberg.table import Table

from tableflow_assets.base.errors import ServerUnreachable, TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.product.products import Product
from tableflow_assets.table.ledger import ancestors, read_ledger, total
from tableflow_assets.table.snapshots import is_compaction, rows_in, total_now

CHANGES = (
    "added-records",
    "deleted-data-files",
    "added-position-deletes",
    "added-equality-deletes",
)


@dataclass(frozen=True)
class ProductStatus:
    """``state``: current, behind, no_table, waiting or error; for an error, ``reason`` says why.

    ``behind``: the inputs that have changed; if waiting, those that have no table yet.
    """

    product: str
    state: str
    behind: tuple[str, ...] = ()
    reason: str = ""
    rows: int = 0
    files: int = 0
    last_commit: datetime | None = None
    inputs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {
            "last_commit": self.last_commit.isoformat() if self.last_commit else None
        }


def product_status(catalog: RestCatalog, product: Product, state_dir: Path) -> ProductStatus:
    """Errors of this product become its status. Reads metadata only."""
    inputs = tuple(source.name for source in product.inputs)
    try:
        with named_faults(product.name, state_dir):
            return _product_status(catalog, product, inputs)
    except ServerUnreachable:
        raise  # then no product has a status
    except TableflowError as error:
        return ProductStatus(product.name, "error", reason=str(error), inputs=inputs)


def has_changed(table: Table, since: int | None) -> bool:
    """Whether rows were added or removed; also True if ``since`` is no longer an ancestor."""
    head = table.current_snapshot()
    for snapshot in ancestors(table, head) if head else ():
        if snapshot.snapshot_id == since:
            return False
        if not is_compaction(snapshot) and any(total(snapshot, name) for name in CHANGES):
            return True
    return True


def _product_status(
    catalog: RestCatalog, product: Product, inputs: tuple[str, ...]
) -> ProductStatus:
    itself = catalog.find(product.name)
    tables = [(source, catalog.find(source.table)) for source in product.inputs]
    without = tuple(
        source.name for source, table in tables if table is None or not table.current_snapshot()
    )
    head = itself.current_snapshot() if itself is not None else None
    if itself is None or head is None:
        state = "waiting" if without else "no_table"
        return ProductStatus(product.name, state, behind=without, inputs=inputs)
    ledger = read_ledger(itself)
    snapshots = ledger.entry.inputs
    behind = tuple(
        source.name
        for source, table in tables
        if table is not None and has_changed(table, snapshots.get(source.table))
    )
    is_other_sql = ledger.entry.statement != product.definition.version
    return ProductStatus(
        product=product.name,
        state="behind" if behind or is_other_sql else "current",
        behind=behind,
        reason="its SQL has changed since it was computed" if is_other_sql else "",
        rows=rows_in(head),
        files=total_now(itself, "total-data-files"),
        last_commit=datetime.fromtimestamp(ledger.committed_at_ms / 1000, UTC),
        inputs=inputs,
    )
