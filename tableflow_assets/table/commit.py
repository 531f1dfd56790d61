"""One commit: rows and ledger entry in one snapshot, fenced against every other writer.

The rows are appended to a branch of our own, created from the snapshot that the plan was based on. Then
``main`` is moved to the branch's head, on condition that it still is at that snapshot: if another writer
came first, the catalog refuses and none of our rows become visible.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)
from pyspark.sql import DataFrame, DataFrameWriterV2

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.change import PAUSES, change_table
from tableflow_assets.table.ledger import PROPERTY, TAG, Entry
from tableflow_assets.table.written import Written, refuse_other_content

WRITER, REBUILD = "tableflow_writer", "tableflow_rebuild"
# Longer than any run: a branch this old has lost its writer.
ABANDONED_AFTER_SECONDS = {WRITER: 6 * 3600, REBUILD: 7 * 24 * 3600}
logger = logging.getLogger(__name__)


def open_branch(catalog: RestCatalog, table: Table, base: int, prefix: str = WRITER) -> str:
    branch = f"{prefix}_{int(time.time())}_{uuid.uuid4().hex[:12]}"
    change_table(
        catalog, table, lambda: table.manage_snapshots().create_branch(base, branch).commit()
    )
    return branch


@contextmanager
def own_branch(
    catalog: RestCatalog, table: Table, base: int, prefix: str = WRITER
) -> Iterator[str]:
    """A branch for the duration of a commit; committing removes it, and so does a failure."""
    branch = open_branch(catalog, table, base, prefix)
    try:
        yield branch
    except BaseException:
        try:
            drop_branch(catalog, table, branch)
        except Exception as error:  # the original error is the one to report
            logger.debug("the branch %s is left for a later run to remove: %s", branch, error)
        raise


def append_nothing(catalog: RestCatalog, table: Table, branch: str, entry: Entry) -> None:
    """An empty snapshot that carries the ledger entry."""
    import pyarrow as pa

    no_rows = pa.Table.from_batches([], schema=table.schema().as_arrow())
    properties = {PROPERTY: entry.to_property()}
    catalog.ask(table.refresh)
    change_table(
        catalog,
        table,
        lambda: table.append(no_rows, snapshot_properties=properties, branch=branch),
    )


def append_to_branch(
    rows: DataFrame,
    spark_table: str,
    branch: str,
    entry: Entry,
    *,
    gather: bool,
    fanout: bool = True,
) -> None:
    """``gather``: one file per partition, at the cost of a shuffle; else every task writes its own.

    ``fanout``: keep a file open for every partition at once; else the rows are sorted first.
    """
    distribution = "hash" if gather else "none"
    writer = branch_writer(rows, spark_table, branch, entry, fanout=fanout)
    writer.option("distribution-mode", distribution).append()


def branch_in_spark(spark_table: str, branch: str) -> str:
    """The branch's name in Spark SQL."""
    return f"{spark_table}.`branch_{branch}`"


def branch_writer(
    rows: DataFrame, spark_table: str, branch: str, entry: Entry, *, fanout: bool = True
) -> DataFrameWriterV2:
    return (
        rows.writeTo(branch_in_spark(spark_table, branch))
        .option(f"snapshot-property.{PROPERTY}", entry.to_property())
        .option("fanout-enabled", str(fanout).lower())
    )


def empty_branch(catalog: RestCatalog, table: Table, branch: str, entry: Entry) -> None:
    """A branch without rows, whose ledger begins with the entry."""
    catalog.ask(table.refresh)
    properties = {PROPERTY: entry.to_property()}
    with warnings.catch_warnings():
        # pyiceberg warns that it rewrites files, which does not happen when whole files are deleted.
        warnings.filterwarnings("ignore", message="Merge on read")
        change_table(
            catalog, table, lambda: table.delete(snapshot_properties=properties, branch=branch)
        )
    append_nothing(catalog, table, branch, entry)


def commit_branch(
    catalog: RestCatalog,
    table: Table,
    branch: str,
    base: int,
    written: Written | None = None,
    *,
    keep_old_as: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> int:
    """Make the branch's head the table's current snapshot, if ``base`` still is; return the head.

    Refused if the branch holds anything but what was ``written``; None: the caller has compared the rows
    themselves. The same commit can tag the old snapshot and set table properties. Afterwards ``table``
    reflects the commit.
    """
    catalog.ask(table.refresh)
    if branch not in table.metadata.refs:  # erasing a key aborts the commits under way
        raise _overtaken(table)
    if written is not None:
        refuse_other_content(table, branch, base, written)
    head = table.metadata.refs[branch].snapshot_id
    main_at_base = AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": base})
    move = {"ref-name": MAIN_BRANCH, "snapshot-id": head, "type": SnapshotRefType.BRANCH}
    requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), main_at_base)
    updates = (
        SetSnapshotRefUpdate.model_validate(move),
        _tag(TAG, head),
        RemoveSnapshotRefUpdate.model_validate({"ref-name": branch}),
        *([_tag(keep_old_as, base)] if keep_old_as else ()),
        *([SetPropertiesUpdate(updates=dict(properties))] if properties else ()),
    )
    move_main(catalog, table, requirements, updates, base, head)
    return head


def move_main(
    catalog: RestCatalog,
    table: Table,
    requirements: tuple[TableRequirement, ...],
    updates: tuple[TableUpdate, ...],
    base: int,
    head: int,
) -> None:
    """From ``base``, which the requirements must assert, to ``head``, which the updates must set."""

    def move() -> None:
        try:
            answer = catalog.ask(lambda: catalog.iceberg.commit_table(table, requirements, updates))
        except Exception as error:
            # Refused, or succeeded but the answer got lost: only the table knows which.
            current = _current(catalog, table)
            if current == head:
                return
            if isinstance(error, CommitFailedException) and current != base:
                raise _overtaken(table) from error
            raise
        table.metadata, table.metadata_location = answer.metadata, answer.metadata_location
        reached("committed")

    try:  # again where only a property or another branch changed, not the rows
        retry_after_pauses(move, PAUSES, CommitFailedException)
    except CommitFailedException as error:
        raise _overtaken(table) from error


def _overtaken(table: Table) -> CommitConflict:
    return CommitConflict(
        f"Another writer committed to {'.'.join(table.name())} since this was planned.",
        "Nothing was written twice or lost: run again, it continues after that commit.",
    )


def _tag(name: str, snapshot: int) -> SetSnapshotRefUpdate:
    tag = {"ref-name": name, "snapshot-id": snapshot, "type": SnapshotRefType.TAG}
    return SetSnapshotRefUpdate.model_validate(tag)


def drop_branch(catalog: RestCatalog, table: Table, branch: str) -> None:
    catalog.ask(table.refresh)  # Spark has moved the branch since we created it
    change_table(catalog, table, lambda: table.manage_snapshots().remove_branch(branch).commit())


def drop_abandoned_branches(catalog: RestCatalog, table: Table) -> None:
    """Left behind by killed runs. A live writer's branch is younger, and fenced in any case."""
    for name in list(table.metadata.refs):
        match = re.fullmatch(rf"({WRITER}|{REBUILD})_(\d+)_\w+", name)
        if match and int(match[2]) < time.time() - ABANDONED_AFTER_SECONDS[match[1]]:
            drop_branch(catalog, table, name)


def _current(catalog: RestCatalog, table: Table) -> int | None:
    catalog.ask(table.refresh)
    return table.metadata.current_snapshot_id
