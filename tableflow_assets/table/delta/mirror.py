"""The Delta log of a table, derived from its Iceberg snapshots over the same Parquet files.

Every state of the Iceberg table becomes one Delta version, which names the snapshot it mirrors. So a run
that dies in between does no harm: the next one sees what is missing and writes it. A version is only
written if absent: two concurrent writers either write the same, or one of them starts over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import cached_property

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.delta.changes import SnapshotChanges, content_of, states_since
from tableflow_assets.table.delta.checkpoint import is_due, write_checkpoint
from tableflow_assets.table.delta.file_entries import VECTORS, FileEntries, removal
from tableflow_assets.table.delta.log import Action, DeltaLog, State
from tableflow_assets.table.delta.mirrored import (
    WRITER,
    Mirrored,
    has_columns_of,
    metadata_of,
    mirrored,
)
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root, is_delta, topic_of
from tableflow_assets.table.snapshots import is_compaction

ATTEMPTS = 5
logger = logging.getLogger(__name__)


def follow(catalog: RestCatalog, table: Table, *, is_fresh: bool = False) -> None:
    """Call this after a commit to the Iceberg table. Never raises: the commit stands in any case.

    The next run writes what could not be written now; until then the check `delta_mirror` reports it.
    """
    try:
        if is_delta(table):
            catch_up(catalog, table, is_fresh=is_fresh)
    except Exception as error:
        logger.warning("%s: its Delta log is behind: %s", topic_of(table), error)


def catch_up(catalog: RestCatalog, table: Table, *, is_fresh: bool = False) -> int:
    """Write the versions that are missing; return how many.

    ``is_fresh``: the table is as our own commit left it, and need not be loaded again.
    """
    versions = _write(catalog, table, lambda mirror: mirror.catch_up(is_fresh))
    reached("mirrored")
    return versions


def _write(catalog: RestCatalog, table: Table, write: Callable[[_Mirror], int]) -> int:
    try:
        return retry_on_conflict(lambda: write(_Mirror(catalog, table)), ATTEMPTS, _Overtaken)
    except _Overtaken as error:
        raise CommitConflict(
            f"Others kept writing to the Delta log of {topic_of(table)!r} at the same time.",
            "Run again: it goes on where they are.",
        ) from error


def write_anew(catalog: RestCatalog, table: Table) -> int:
    """Bring the log to the table's state, no matter who has written to it; return the version."""
    return _write(catalog, table, lambda mirror: mirror.write_everything())


class _Overtaken(Exception):
    """Somebody else wrote the version that was meant to be ours: start over."""


class _Mirror:
    """One reading of table and log, and the versions that follow from it."""

    def __init__(self, catalog: RestCatalog, table: Table) -> None:
        self.table, self.catalog = table, catalog
        self.topic = topic_of(table)
        self.store = store_at(delta_root(table), catalog.storage)
        self.log = DeltaLog(self.store, self.topic)
        self.entries = FileEntries(table, self.store, lambda: self.state)
        self.written = 0

    def catch_up(self, is_fresh: bool) -> int:
        last = mirrored(self.log, self.topic)
        head = self.table.current_snapshot() if is_fresh else None
        if not (last and head and self._leads_to(last, head)):
            head = self._head()  # the log may already be past our commit
        if head is None:
            return 0
        if last is None:
            self._write_all(head, State(-1), ())
            return self.written
        if last.snapshot == head.snapshot_id and has_columns_of(self.table, last):
            return 0
        steps = states_since(self.table, last.snapshot, head)
        if steps is None:  # rolled back, or the snapshots in between have expired
            self._write_all(head, self.state, last.features)
            return self.written
        for step in steps or [[]]:
            last = self._write_step(last, step, head)
        return self.written

    def write_everything(self) -> int:
        # Do not keep features that others declared: some readers may not support them.
        features_so_far = {VECTORS} & set(_features_of(self.state))
        head = self._head()
        if head is None:
            return -1
        return self._write_all(head, self.state, features_so_far, restate=True).version

    def _leads_to(self, last: Mirrored, head: Snapshot) -> bool:
        is_same = last.snapshot == head.snapshot_id
        return is_same or bool(states_since(self.table, last.snapshot, head))

    def _head(self) -> Snapshot | None:
        """Loaded after reading the log, so that it is never older than what the log shows.

        Otherwise somebody else's commit in between would look like a rollback.
        """
        return self.catalog.ask(self.table.refresh).current_snapshot()

    @cached_property
    def state(self) -> State:
        return self.log.state()

    def _write_step(self, last: Mirrored, step: list[Snapshot], head: Snapshot) -> Mirrored:
        """``step``: empty if only the columns changed."""
        changes = SnapshotChanges()
        for snapshot in step:
            changes.follow(snapshot, self.table.io)
        at = step[-1] if step else head
        files = last.files + len(changes.added) - len(changes.removed)
        if files != _files_in(at, default=files):
            # Some commit did not record everything it did: compare the whole table instead.
            return self._write_all(at, self.state, last.features)
        features_so_far = set(last.features) | ({VECTORS} if changes.deleted_rows else set())
        vectors = (
            self.entries.new_vectors(changes, at, last.version + 1) if changes.deleted_rows else {}
        )
        removals = [
            self.entries.remove(path, at, features_so_far, changes.changes_rows)
            for path in changes.removed
        ]
        additions = [
            self.entries.add(file, at, vectors.pop(path, None), changes.changes_rows)
            for path, file in changes.added.items()
        ]
        for path, vector in vectors.items():  # the rest belong to existing files
            removals.append(self.entries.remove(path, at, features_so_far, True))
            additions.append(self.entries.add_with_vector(path, vector))
        return self._append(
            last.version, last.metadata, at, files, features_so_far, [*removals, *additions]
        )

    def _write_all(
        self, head: Snapshot, state: State, known_features: Iterable[str], *, restate: bool = False
    ) -> Mirrored:
        """Write the difference between the log and the table.

        ``restate``: also for files that the log describes differently.
        """
        content = content_of(head, self.table.io)
        files = {self.entries.encoded(path): file for path, file in content.files.items()}
        deleted_rows = {
            self.entries.encoded(path): rows for path, rows in content.deleted_rows.items()
        }
        stale = {
            path
            for path, entry in state.files.items()
            if path not in files
            or self.entries.deleted_in(entry) != deleted_rows.get(path, BitMap64())
        }
        to_add = {path: file for path, file in files.items() if path not in state.files} | {
            path: files[path] for path in stale if path in files
        }
        if restate:
            to_add |= {
                path: file
                for path, file in files.items()
                if path not in to_add and not self.entries.is_stated(state.files[path], file)
            }
        vectors: dict[str, Action] = {}
        if rows := {path: deleted_rows[path] for path in to_add if path in deleted_rows}:
            vectors = self.entries.write_vectors(rows, head, state.version + 1)
        features_so_far = set(known_features) | ({VECTORS} if deleted_rows else set())
        # An entry without a vector is replaced by the next one with the same path. With a different
        # vector, Delta sees a different file.
        stale |= {path for path in to_add.keys() & state.files.keys() if path in vectors}
        removals = [removal(path, state.files[path], head, True) for path in sorted(stale)]
        additions = [
            self.entries.add(file, head, vectors.get(path), True) for path, file in to_add.items()
        ]
        digest = "" if state.metadata is None else None
        return self._append(
            state.version, digest, head, len(files), features_so_far, [*removals, *additions]
        )

    def _append(
        self,
        base: int,
        digest: str | None,
        at: Snapshot,
        files: int,
        known_features: Iterable[str],
        actions: list[Action],
    ) -> Mirrored:
        """``digest``: of the metadata in the log; None if unknown."""
        version = base + 1
        new_digest, names, metadata_actions = metadata_of(self.table, known_features)
        our_info = {
            "snapshot": str(at.snapshot_id),
            "metadata": new_digest,
            "features": names,
            "files": files,
        }
        info = {
            "timestamp": at.timestamp_ms,
            "operation": _operation(at),
            "operationParameters": {},
            "engineInfo": "Tableflow-Assets",
            WRITER: our_info,
        }
        sequence = at.sequence_number or 0
        head: list[Action] = [
            {"commitInfo": info},
            *(metadata_actions if new_digest != digest else ()),
            {"txn": {"appId": WRITER, "version": sequence, "lastUpdated": at.timestamp_ms}},
        ]
        if not self.log.append(version, [*head, *actions]):
            raise _Overtaken
        self.written += 1
        if "state" in self.__dict__:
            for action in [*head, *actions]:
                self.state.apply(action)
            self.state.version = version
        # After a compaction, most of the log a reader would have to read is about files that are gone.
        if is_due(version, files) or is_compaction(at):
            write_checkpoint(delta_root(self.table), self.catalog.storage)
        return Mirrored(version, at.snapshot_id, new_digest, tuple(names), files)


def _features_of(state: State) -> tuple[str, ...]:
    return tuple((state.protocol or {}).get("readerFeatures") or ())


def _files_in(snapshot: Snapshot, default: int) -> int:
    summary = snapshot.summary.additional_properties if snapshot.summary else {}
    return int(summary.get("total-data-files", default))


def _operation(snapshot: Snapshot) -> str:
    """Delta's name for the operation."""
    names = {"append": "WRITE", "overwrite": "WRITE", "delete": "DELETE", "replace": "OPTIMIZE"}
    operation = snapshot.summary.operation.value if snapshot.summary else "append"
    return names.get(operation, "WRITE")
