"""Are both formats the same table? Compared file by file.

The mirror has no part in judging itself: Iceberg's metadata is read by pyiceberg, the Delta log and its
deletion vectors by delta-rs, and the store says which files there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.base.retry import poll_until
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.delta.checkpoint import storage_options
from tableflow_assets.table.delta.compare_columns import columns_that_differ
from tableflow_assets.table.delta.compare_files import (
    Files,
    Finding,
    Kind,
    delta_files,
    files_that_differ,
    iceberg_files,
)
from tableflow_assets.table.delta.lifecycle import Standing, standing
from tableflow_assets.table.formats import delta_root, topic_of
from tableflow_assets.table.lost_files import lost_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

SHOWN = 20  # findings of a kind
# A run that has just committed is about to mirror: for so long, being behind is no finding.
PATIENCE_SECONDS, PAUSE = 5.0, 0.25


@dataclass(frozen=True)
class Compared:
    """``snapshot`` and ``version`` are what was compared; with findings, perhaps nothing was."""

    topic: str
    snapshot: int | None
    version: int
    findings: tuple[Finding, ...] = ()
    files: int = 0
    rows: int = 0
    deleted_rows: int = 0
    rows_compared: int | None = None  # value by value; None: not asked for, or not possible

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_json(self) -> dict[str, Any]:
        # As text: JSON's numbers are shorter than Iceberg's.
        snapshot = None if self.snapshot is None else str(self.snapshot)
        return asdict(self) | {"snapshot": snapshot, "ok": self.ok}


def compare(
    catalog: RestCatalog,
    table: Table,
    *,
    rows: bool = False,
    patience: float = PATIENCE_SECONDS,
    on_read: Callable[[int], None] = lambda _: None,
) -> Compared:
    """Changes nothing. ``rows``: also value by value; ``on_read`` is told of rows as they are read."""
    reached = _standing_after_a_while(catalog, table, patience)
    snapshot = _compared_snapshot(table, reached)
    result = Compared(topic_of(table), None, reached.version)
    findings = list(_of_standing(reached))
    if snapshot is None:
        return replace(result, findings=tuple(findings))
    result = replace(result, snapshot=snapshot.snapshot_id)
    lost = lost_files(catalog, table, snapshot)
    findings += (Finding("lost_file", f"{one}.") for one in lost)
    iceberg = iceberg_files(table, snapshot, lost)
    delta = _open(catalog, table, reached, findings)
    if delta is not None:
        findings += _differences(table, iceberg, delta)
    result = replace(
        result,
        files=len(iceberg),
        rows=sum((one.records or 0) - len(one.deleted) for one in iceberg.values()),
        deleted_rows=sum(len(one.deleted) for one in iceberg.values()),
    )
    if rows and delta is not None and not lost:
        from tableflow_assets.table.delta.compare_rows import compare_rows

        compared = compare_rows(table, snapshot, delta, on_read)
        findings += (Finding("rows", problem) for problem in compared.problems)
        result = replace(result, rows_compared=compared.rows)
    return replace(result, findings=tuple(_some(findings)))


def _standing_after_a_while(catalog: RestCatalog, table: Table, patience: float) -> Standing:
    return poll_until(
        lambda reached: not reached.behind or reached.problem,
        lambda: standing(catalog, catalog.ask(table.refresh)),
        every=PAUSE,
        within=patience,
    )


def _compared_snapshot(table: Table, reached: Standing) -> Snapshot | None:
    """What the Delta log says that it shows; where it says nothing sensible, the table's head."""
    if reached.version < 0:
        return table.current_snapshot()
    return table.snapshot_by_id(reached.snapshot) if reached.snapshot is not None else None


def _of_standing(reached: Standing) -> Iterator[Finding]:
    if reached.problem:
        yield Finding("log", reached.problem.splitlines()[0])
    elif reached.version < 0 and reached.behind:
        yield Finding("behind", "There is no Delta log.")
    elif reached.behind:
        yield Finding("behind", f"The Delta log is {reached.behind} states behind the table.")


def _open(
    catalog: RestCatalog, table: Table, reached: Standing, findings: list[Finding]
) -> DeltaTable | None:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    version = reached.version if reached.version >= 0 else None
    if version is None and not reached.problem:
        return None
    try:
        options = storage_options(catalog.storage, delta_root(table))
        return DeltaTable(delta_root(table), version=version, storage_options=options)
    except (DeltaError, OSError) as error:
        findings.append(_unreadable(error))
        return None


def _unreadable(error: Exception) -> Finding:
    first_line = next(iter(str(error).splitlines()), "")
    return Finding("log", f"delta-rs cannot read the Delta table: {first_line}")


def _differences(table: Table, iceberg: Files, delta: DeltaTable) -> Iterator[Finding]:
    from deltalake.exceptions import DeltaError

    try:
        files, listed = delta_files(delta, delta_root(table))
        columns = pa.schema(delta.schema().to_arrow())
    except (DeltaError, OSError) as error:
        yield _unreadable(error)
        return
    for problem in columns_that_differ(table.schema().as_arrow(), columns):
        yield Finding("columns", f"The column {problem}.")
    yield from files_that_differ(iceberg, files, listed)


def _some(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first of every kind, and how many more there are."""
    seen = Counter[Kind]()
    for one in findings:
        seen[one.kind] += 1
        if seen[one.kind] <= SHOWN:
            yield one
    for kind, count in seen.items():
        if count > SHOWN:
            yield Finding(kind, f"And {count - SHOWN} more of this kind.")
