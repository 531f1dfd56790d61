"""One commit: rows and ledger entry in one snapshot, fenced against every other writer.

The rows are appended to a branch of our own, taken from the snapshot that the plan was made on. Then
``main`` is moved to it under the condition that it still is that snapshot: if another writer came
first, the catalog refuses, and nothing of ours is visible.
"""

from __future__ import annotations

import re
import time
import uuid

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tableflow_assets.boundary import reached
from tableflow_assets.catalog.rest import RestCatalog
from tableflow_assets.errors import CommitConflict
from tableflow_assets.spark_session import spark_is_away
from tableflow_assets.table.ledger import PROPERTY, Entry

BRANCH_PREFIX = "tableflow_writer"
ABANDONED_AFTER_SECONDS = 6 * 3600  # longer than any run: a branch this old has lost its writer
# Below this, rows are gathered into one file a window; above, the shuffle would cost more than it
# saves, and every task writes its own.
GATHER_UP_TO_RECORDS = 200_000
# What catalogs say when another commit came between reading the table and writing it.
LOST_RACE = ("CommitFailedException", "sequence number", "Requirement failed")


def open_branch(catalog: RestCatalog, table: Table, base: int) -> str:
    branch = f"{BRANCH_PREFIX}_{int(time.time())}_{uuid.uuid4().hex[:12]}"
    catalog.ask(table.manage_snapshots().create_branch(base, branch).commit)
    return branch


def append_to_branch(
    rows: DataFrame, spark_table: str, branch: str, entry: Entry, records: int
) -> None:
    gather = records <= GATHER_UP_TO_RECORDS
    writer = (
        rows.writeTo(f"{spark_table}.`branch_{branch}`")
        .option(f"snapshot-property.{PROPERTY}", entry.to_property())
        .option("distribution-mode", "hash" if gather else "none")
        .option("fanout-enabled", "true")
    )
    try:
        writer.append()
    except PySparkException as error:
        if any(words in str(error) for words in LOST_RACE):
            raise CommitConflict(
                f"Another writer committed to {spark_table} at the same moment.",
                "Nothing was written twice or lost: run again, it continues after that commit.",
            ) from error
        raise spark_is_away(error) or error from error


def publish(catalog: RestCatalog, table: Table, branch: str, base: int) -> int:
    """Make the branch's head the table's current snapshot, if ``base`` still is; return the head."""
    catalog.ask(table.refresh)
    head = table.metadata.refs[branch].snapshot_id
    still = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": base})
    move = {"ref-name": MAIN_BRANCH, "snapshot-id": head, "type": SnapshotRefType.BRANCH}
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), still)
    updates = (
        SetSnapshotRefUpdate.model_validate(move),
        RemoveSnapshotRefUpdate.model_validate({"ref-name": branch}),
    )
    try:
        catalog.ask(lambda: catalog.iceberg.commit_table(table, requirements, updates))
        reached("committed")
    except Exception as error:
        # Refused, or succeeded with the answer lost on the way: the table itself knows which.
        if _is_current(catalog, table, head):
            return head
        if isinstance(error, CommitFailedException):
            raise CommitConflict(
                f"Another writer committed to {'.'.join(table.name())} since this was planned.",
                "Nothing was written twice or lost: run again, it continues after that commit.",
            ) from error
        raise
    return head


def drop_branch(catalog: RestCatalog, table: Table, branch: str) -> None:
    catalog.ask(table.refresh)  # Spark has moved the branch since we made it
    catalog.ask(table.manage_snapshots().remove_branch(branch).commit)


def drop_abandoned_branches(catalog: RestCatalog, table: Table) -> None:
    """What killed runs left behind. A live writer's branch is younger, and fenced in any case."""
    oldest_alive = time.time() - ABANDONED_AFTER_SECONDS
    for name in list(table.metadata.refs):
        started = re.fullmatch(rf"{BRANCH_PREFIX}_(\d+)_\w+", name)
        if started and int(started.group(1)) < oldest_alive:
            drop_branch(catalog, table, name)


def _is_current(catalog: RestCatalog, table: Table, snapshot: int) -> bool:
    catalog.ask(table.refresh)
    current = table.current_snapshot()
    return current is not None and current.snapshot_id == snapshot
