"""The Delta log of a table, derived from its Iceberg snapshots over the same Parquet files.

Every state of the Iceberg table becomes one Delta version, which names the snapshot it mirrors. So a run
that dies in between does no harm: the next one sees what is missing and writes it. A version is only
written if absent: two concurrent writers either write the same, or one of them starts over.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any
from urllib.parse import quote

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyroaring import BitMap64

from tableflow_assets.base.boundary import reached
from tableflow_assets.base.errors import CommitConflict, MirrorError
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.delta.changes import SnapshotChanges, content_of, states_since
from tableflow_assets.table.delta.checkpoint import is_due, write_checkpoint
from tableflow_assets.table.delta.log import Action, DeltaLog, State
from tableflow_assets.table.delta.schema import delta_schema, features
from tableflow_assets.table.delta.stats import StatsWriter, loosened
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.delta.vectors import read_vector, write_vectors
from tableflow_assets.table.formats import delta_root, is_delta, topic_of
from tableflow_assets.table.snapshots import is_compaction

WRITER = "tableflow_assets"
VECTORS = "deletionVectors"
# A writer must not touch a table with a writer feature it does not know. This one keeps others from
# running VACUUM on Iceberg's files or making changes that Iceberg would not see. Readers ignore it.
NO_OTHER_WRITERS = "tableflowMirror"
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


@dataclass(frozen=True)
class Mirrored:
    """What the newest version of a log says about itself."""

    version: int
    snapshot: int
    metadata: str  # a digest of schema and properties
    features: tuple[str, ...]
    files: int


def mirrored(log: DeltaLog, topic: str) -> Mirrored | None:
    """None if there is no log yet."""
    if log.newest < 0:
        return None
    info = written_by_us(log.commit(log.newest))
    if info is None:
        raise MirrorError(
            f"Version {log.newest} of the Delta log of {topic!r} was not written by Tableflow"
            " Assets: somebody else has changed the Delta table.",
            f"The Iceberg table is not affected. Undo that change: tableflow repair {topic}",
        )
    return Mirrored(
        log.newest,
        int(info["snapshot"]),
        info["metadata"],
        tuple(info["features"]),
        int(info["files"]),
    )


def has_columns_of(table: Table, last: Mirrored) -> bool:
    return _metadata(table, last.features)[0] == last.metadata


def written_by_us(actions: Iterable[Action]) -> dict[str, Any] | None:
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    return info.get(WRITER)


class _Overtaken(Exception):
    """Somebody else wrote the version that was meant to be ours: start over."""


class _Mirror:
    """One reading of table and log, and the versions that follow from it."""

    def __init__(self, catalog: RestCatalog, table: Table) -> None:
        self.table, self.catalog = table, catalog
        self.topic = topic_of(table)
        self.store = store_at(delta_root(table), catalog.storage)
        self.log = DeltaLog(self.store, self.topic)
        self.root = delta_root(table) + "/"
        self._read_vectors = lru_cache(maxsize=16)(self.store.read)  # one file holds many vectors
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
        vectors = self._new_vectors(changes, at, last.version + 1) if changes.deleted_rows else {}
        removals = [
            self._remove(path, at, features_so_far, changes.changes_rows)
            for path in changes.removed
        ]
        additions = [
            self._add(file, at, vectors.pop(path, None), changes.changes_rows)
            for path, file in changes.added.items()
        ]
        for path, vector in vectors.items():  # the rest belong to existing files
            removals.append(self._remove(path, at, features_so_far, True))
            additions.append(self._add_with_vector(path, vector))
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
        files = {self._encoded(path): file for path, file in content.files.items()}
        deleted_rows = {self._encoded(path): rows for path, rows in content.deleted_rows.items()}
        stale = {
            path
            for path, entry in state.files.items()
            if path not in files or self._deleted_in(entry) != deleted_rows.get(path, BitMap64())
        }
        to_add = {path: file for path, file in files.items() if path not in state.files} | {
            path: files[path] for path in stale if path in files
        }
        if restate:
            to_add |= {
                path: file
                for path, file in files.items()
                if path not in to_add and not self._is_stated(state.files[path], file)
            }
        vectors: dict[str, Action] = {}
        if rows := {path: deleted_rows[path] for path in to_add if path in deleted_rows}:
            vectors = self._write_vectors(rows, head, state.version + 1)
        features_so_far = set(known_features) | ({VECTORS} if deleted_rows else set())
        # An entry without a vector is replaced by the next one with the same path. With a different
        # vector, Delta sees a different file.
        stale |= {path for path in to_add.keys() & state.files.keys() if path in vectors}
        removals = [_remove(path, state.files[path], head, True) for path in sorted(stale)]
        additions = [
            self._add(file, head, vectors.get(path), True) for path, file in to_add.items()
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
        new_digest, names, metadata_actions = _metadata(self.table, known_features)
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

    # --- files --------------------------------------------------------------------------------

    @cached_property
    def _stats(self) -> StatsWriter:
        return StatsWriter(self.table.schema())

    def _encoded(self, path: str) -> str:
        return quote(path.removeprefix(self.root), safe="/=")

    def _add(
        self, file: DataFile, at: Snapshot, vector: Action | None, changes_rows: bool
    ) -> Action:
        add: Action = {
            "path": self._encoded(file.file_path),
            "partitionValues": {},
            "size": file.file_size_in_bytes,
            "modificationTime": at.timestamp_ms,
            "dataChange": changes_rows,
            "stats": self._stats.of(file, tight=vector is None),
        }
        if vector is not None:
            add["deletionVector"] = vector
        return {"add": add}

    def _is_stated(self, entry: Action, file: DataFile) -> bool:
        stats = self._stats.of(file, tight=not entry.get("deletionVector"))
        return (entry.get("size"), entry.get("stats")) == (file.file_size_in_bytes, stats)

    def _add_with_vector(self, path: str, vector: Action) -> Action:
        entry = self.state.files[self._encoded(path)]
        return {
            "add": {
                "path": entry["path"],
                "partitionValues": {},
                "size": entry["size"],
                "modificationTime": entry["modificationTime"],
                "dataChange": True,
                "stats": loosened(entry["stats"]),
                "deletionVector": vector,
            }
        }

    def _remove(
        self, path: str, at: Snapshot, features_so_far: Iterable[str], changes_rows: bool
    ) -> Action:
        encoded_path = self._encoded(path)
        # Only with deletion vectors does a removal need more of the file's entry than its path.
        entry = self.state.files.get(encoded_path, {}) if VECTORS in features_so_far else {}
        return _remove(encoded_path, entry, at, changes_rows)

    # --- deleted rows -------------------------------------------------------------------------

    def _new_vectors(
        self, changes: SnapshotChanges, at: Snapshot, version: int
    ) -> dict[str, Action]:
        """By full path, for files with more deleted rows than before."""
        rows = {}
        for path, deleted_rows in changes.deleted_rows.items():
            entry = self.state.files.get(self._encoded(path))
            if path in changes.added:
                rows[path] = deleted_rows
            elif entry is not None and path not in changes.removed:
                earlier = self._deleted_in(entry)
                if deleted_rows - earlier:
                    rows[path] = earlier | deleted_rows
        return self._write_vectors(rows, at, version) if rows else {}

    def _deleted_in(self, file: Action) -> BitMap64:
        vector = file.get("deletionVector")
        if not vector:
            return BitMap64()
        try:
            return read_vector(vector, self._read_vectors)
        except ValueError as error:
            raise MirrorError(
                f"The Delta log of {self.topic!r} is damaged: {error}.",
                f"The Iceberg table is not affected. Write the log again: tableflow repair {self.topic}",
            ) from error

    def _write_vectors(
        self, rows: dict[str, BitMap64], at: Snapshot, version: int
    ) -> dict[str, Action]:
        of_version = uuid.uuid5(self.table.metadata.table_uuid, f"{at.snapshot_id}/{version}")
        name, content, descriptors = write_vectors(rows, of_version)
        self.store.put(name, content)
        reached("vectors_written")
        return descriptors


def _metadata(table: Table, known_features: Iterable[str]) -> tuple[str, list[str], list[Action]]:
    """A digest of the metadata, the features it needs, and the actions that declare it."""
    schema, history = table.schema(), table.schemas()
    columns = delta_schema(schema, history)
    names = sorted({*known_features, *features(schema, history)})
    configuration = {
        "delta.columnMapping.mode": "id",
        "delta.columnMapping.maxColumnId": str(table.metadata.last_column_id),
        **({"delta.enableTypeWidening": "true"} if "typeWidening" in names else {}),
    }
    digest = hashlib.sha256(json.dumps([columns, names, configuration]).encode()).hexdigest()
    actions: list[Action] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": names,
                "writerFeatures": [*names, NO_OTHER_WRITERS],
            }
        },
        {
            "metaData": {
                "id": str(table.metadata.table_uuid),
                "name": table.name()[-1],
                "format": {"provider": "parquet", "options": {}},
                "schemaString": columns,
                "partitionColumns": [],
                "configuration": configuration,
                "createdTime": int(time.time() * 1000),
            }
        },
    ]
    return digest[:16], names, actions


def _remove(path: str, entry: Action, at: Snapshot, changes_rows: bool) -> Action:
    remove: Action = {
        "path": path,
        "deletionTimestamp": at.timestamp_ms,
        "dataChange": changes_rows,
    }
    if vector := entry.get("deletionVector"):
        remove["deletionVector"] = {
            key: value for key, value in vector.items() if value is not None
        }
    return {"remove": remove}


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
