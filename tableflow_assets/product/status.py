"""The status of a product: whether its inputs have changed since, and what its table holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
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

    ``behind``: the inputs that have changed; if waiting, those that have no table yet. ``behind_since``:
    when the oldest change that the product lacks was committed.
    """

    product: str
    state: str
    behind: tuple[str, ...] = ()
    behind_since: datetime | None = None
    reason: str = ""
    rows: int = 0
    files: int = 0
    last_commit: datetime | None = None
    inputs: tuple[str, ...] = ()

    def lag(self, now: datetime) -> timedelta:
        return now - self.behind_since if self.behind_since else timedelta()

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {
            "behind_since": self.behind_since.isoformat() if self.behind_since else None,
            "last_commit": self.last_commit.isoformat() if self.last_commit else None,
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
    return next(_changes(table, since), None) is not None


def _changes(table: Table, since: int | None) -> Iterator[int]:
    """When rows were added or removed after the snapshot ``since``, in ms, the newest first.

    If it is no longer an ancestor, whatever the table holds counts as changed.
    """
    head = table.current_snapshot()
    for snapshot in ancestors(table, head) if head else ():
        if snapshot.snapshot_id == since:
            return
        if not is_compaction(snapshot) and any(total(snapshot, name) for name in CHANGES):
            yield snapshot.timestamp_ms
    yield head.timestamp_ms if head else 0


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
    changes = {
        source.name: list(_changes(table, snapshots.get(source.table)))
        for source, table in tables
        if table is not None
    }
    behind = tuple(name for name, moments in changes.items() if moments)
    oldest = min((min(moments) for moments in changes.values() if moments), default=None)
    is_other_sql = ledger.entry.statement != product.definition.version
    return ProductStatus(
        product=product.name,
        state="behind" if behind or is_other_sql else "current",
        behind=behind,
        behind_since=_moment(oldest) if oldest is not None else None,
        reason="its SQL has changed since it was computed" if is_other_sql else "",
        rows=rows_in(head),
        files=total_now(itself, "total-data-files"),
        last_commit=_moment(ledger.committed_at_ms),
        inputs=inputs,
    )


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
