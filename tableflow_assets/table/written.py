"""The last look at a branch before the table moves to it: does it hold what its writer wrote, and only that?

A catalog, or a gateway in front of it, may carry out a request twice and report a conflict: the writer then
adds its files once more, to a branch that has them already.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.table.ledger import ancestors, has_entry, total


@dataclass(frozen=True)
class Written:
    """As the writer counted: ``snapshots`` on its branch, of which the last adds ``rows`` and the entry."""

    rows: int
    snapshots: int = 1


def refuse_other_content(table: Table, branch: str, base: int, written: Written) -> None:
    """From the table's metadata as it was loaded; makes no request."""
    above = list(_snapshots_above(table, base, branch))
    added = sum(total(snapshot, "added-records") for snapshot in above if has_entry(snapshot))
    is_only_the_last = [s for s in above if has_entry(s)] == above[:1]
    if len(above) == written.snapshots and is_only_the_last and added == written.rows:
        return
    raise CommitConflict(
        f"The branch for {'.'.join(table.name())} has {len(above)} snapshots that add {added} rows;"
        f" this run wrote {written.snapshots} that add {written.rows}.",
        "None of it is visible. Run again; if it says the same, find out what repeats requests to the"
        " catalog, such as a gateway in front of it.",
    )


def _snapshots_above(table: Table, base: int, branch: str) -> Iterator[Snapshot]:
    """Newest first; all of them if the branch does not descend from the base."""
    head = table.snapshot_by_name(branch)
    for snapshot in ancestors(table, head) if head else ():
        if snapshot.snapshot_id == base:
            return
        yield snapshot
