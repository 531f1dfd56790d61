"""Are both formats the same table? Compares them file by file.

The mirror does not judge itself: pyiceberg reads Iceberg's metadata, delta-rs the Delta log and its
deletion vectors, and the store says which files exist.
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
from tableflow_assets.table.delta.lifecycle import MirrorStatus, mirror_status
from tableflow_assets.table.formats import delta_root, topic_of
from tableflow_assets.table.lost_files import lost_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

SHOWN = 20  # findings of each kind
# A run that has just committed is about to mirror: for this long, being behind is no finding.
PATIENCE_SECONDS, PAUSE = 5.0, 0.25


@dataclass(frozen=True)
class Compared:
    """``snapshot`` and ``version`` are what was compared; with findings, possibly nothing was."""

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
        # As text: snapshot ids exceed the numbers that JSON readers keep exact.
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
    """Changes nothing. ``rows``: also value by value; ``on_read`` gets the count of rows as they are read."""
    reached = _status_after_a_while(catalog, table, patience)
    snapshot = _mirrored_snapshot(table, reached)
    result = Compared(topic_of(table), None, reached.version)
    findings = list(_status_findings(reached))
    if snapshot is None:
        return replace(result, findings=tuple(findings))
    result = replace(result, snapshot=snapshot.snapshot_id)
    lost_in_store = lost_files(catalog, table, snapshot)
    findings += (Finding("lost_file", f"{file}.") for file in lost_in_store)
    iceberg = iceberg_files(table, snapshot, lost_in_store)
    delta = _open(catalog, table, reached, findings)
    if delta is not None:
        findings += _differences(table, iceberg, delta)
    result = replace(
        result,
        files=len(iceberg),
        rows=sum((file.records or 0) - len(file.deleted) for file in iceberg.values()),
        deleted_rows=sum(len(file.deleted) for file in iceberg.values()),
    )
    if rows and delta is not None and not lost_in_store:
        from tableflow_assets.table.delta.compare_rows import compare_rows

        compared = compare_rows(table, snapshot, delta, on_read)
        findings += (Finding("rows", problem) for problem in compared.problems)
        result = replace(result, rows_compared=compared.rows)
    return replace(result, findings=tuple(_shortened(findings)))


def _status_after_a_while(catalog: RestCatalog, table: Table, patience: float) -> MirrorStatus:
    return poll_until(
        lambda reached: not reached.behind or reached.problem,
        lambda: mirror_status(catalog, catalog.ask(table.refresh)),
        every=PAUSE,
        within=patience,
    )


def _mirrored_snapshot(table: Table, reached: MirrorStatus) -> Snapshot | None:
    """The snapshot the Delta log claims to show; without a readable log, the table's head."""
    if reached.version < 0:
        return table.current_snapshot()
    return table.snapshot_by_id(reached.snapshot) if reached.snapshot is not None else None


def _status_findings(reached: MirrorStatus) -> Iterator[Finding]:
    if reached.problem:
        yield Finding("log", reached.problem.splitlines()[0])
    elif reached.version < 0 and reached.behind:
        yield Finding("behind", "There is no Delta log.")
    elif reached.behind:
        yield Finding("behind", f"The Delta log is {reached.behind} states behind the table.")


def _open(
    catalog: RestCatalog, table: Table, reached: MirrorStatus, findings: list[Finding]
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
        files, listings = delta_files(delta, delta_root(table))
        columns = pa.schema(delta.schema().to_arrow())
    except (DeltaError, OSError) as error:
        yield _unreadable(error)
        return
    for problem in columns_that_differ(table.schema().as_arrow(), columns):
        yield Finding("columns", f"The column {problem}.")
    yield from files_that_differ(iceberg, files, listings)


def _shortened(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The first of every kind, and how many more there are."""
    counts = Counter[Kind]()
    for finding in findings:
        counts[finding.kind] += 1
        if counts[finding.kind] <= SHOWN:
            yield finding
    for kind, count in counts.items():
        if count > SHOWN:
            yield Finding(kind, f"And {count - SHOWN} more of this kind.")
