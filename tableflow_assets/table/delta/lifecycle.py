"""The Delta log as a whole: whether it is kept, how far it is, trimming it and rewriting it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyiceberg.table import Table

from tableflow_assets.base.errors import MirrorError, UnsupportedInDelta
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.delta import log as logs
from tableflow_assets.table.delta import vectors
from tableflow_assets.table.delta.changes import states_since
from tableflow_assets.table.delta.checkpoint import write_checkpoint
from tableflow_assets.table.delta.log import DeltaLog
from tableflow_assets.table.delta.mirror import catch_up, follow, write_anew
from tableflow_assets.table.delta.mirrored import has_columns_of, mirrored, written_by_us
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.table.formats import delta_root, is_delta, keep_formats, topic_of
from tableflow_assets.table.snapshots import kept_states


@dataclass(frozen=True)
class MirrorStatus:
    """How far a table's Delta log is. ``behind``: how many states of the table it still lacks."""

    version: int  # -1: there is no log
    behind: int
    problem: str = ""
    snapshot: int | None = None  # the one that it mirrors


def keep_in_step(catalog: RestCatalog, table: Table, topic: ManagedTable) -> None:
    """As the settings ask: a log that shows the table as it was loaded, or no log."""
    if is_delta(table) and "delta" not in topic.formats:
        # A log left behind would keep promising files that compaction removes. Drop it before the
        # table's property changes: if we die in between, the next run still sees that it is there.
        drop(catalog, table)
    table = keep_formats(catalog, table, topic)
    if is_delta(table):
        follow(catalog, table, is_fresh=True)


def mirror_status(catalog: RestCatalog, table: Table) -> MirrorStatus:
    head = table.current_snapshot()
    try:
        last = mirrored(_log(catalog, table), topic_of(table))
        has_columns = last is None or has_columns_of(table, last)
    except (MirrorError, UnsupportedInDelta) as error:
        return MirrorStatus(-1, 1, str(error))
    if last is None:
        return MirrorStatus(-1, 0 if head is None else 1)
    status = MirrorStatus(last.version, 0, snapshot=last.snapshot)
    if head is None or (last.snapshot == head.snapshot_id and has_columns):
        return status
    steps = states_since(table, last.snapshot, head)
    return replace(status, behind=len(steps) if steps else 1)


def versions(catalog: RestCatalog, table: Table) -> dict[int, int]:
    """By snapshot, the newest Delta version that mirrors it, among those still in the log."""
    log = _log(catalog, table)
    versions_by_snapshot = {}
    for version in log.all_commits:
        if info := written_by_us(log.commit_if_whole(version)):
            versions_by_snapshot[int(info["snapshot"])] = version
    return versions_by_snapshot


def trim(catalog: RestCatalog, table: Table) -> int:
    """Remove the part of the log whose data files expired with their snapshots; return how many files.

    Readers start from a checkpoint, so everything before the newest one that is still needed can go.
    """
    log = _log(catalog, table)
    commits, live = log.all_commits, {snapshot.snapshot_id for snapshot in table.snapshots()}
    # The versions between states that were thinned out cannot be read: the log begins after them.
    live -= kept_states(table)
    if not commits:
        return 0
    readable = commits[-1]
    for version in commits:
        info = written_by_us(log.commit_if_whole(version))
        if info and int(info["snapshot"]) in live:
            readable = version
            break
    begin = max(
        (checkpoint for checkpoint in log.all_checkpoints if checkpoint <= readable), default=-1
    )
    return _remove_before(log, begin) if begin > 0 else 0


def purge(catalog: RestCatalog, table: Table) -> None:
    """Leave only the table's current state in the log: no older versions, and none of their values."""
    try:
        catch_up(catalog, table)
    except MirrorError:
        repair(catalog, table)
    if not write_checkpoint(delta_root(table), catalog.storage):
        raise MirrorError(
            f"Older versions of the Delta log of {topic_of(table)!r} could not be removed.",
            "Run the same command again.",
        )
    log = _log(catalog, table)
    _remove_before(log, log.checkpoint)


def repair(catalog: RestCatalog, table: Table) -> int:
    """Make the log match the Iceberg table, whatever is wrong with it; return the version."""
    try:
        return write_anew(catalog, table)
    except MirrorError:
        return remake(catalog, table)


def remake(catalog: RestCatalog, table: Table) -> int:
    """Start a new log from version 0; return its version."""
    drop(catalog, table)
    return write_anew(catalog, table)


def drop(catalog: RestCatalog, table: Table) -> None:
    store = _store(catalog, table)
    log_files = store.names(logs.FOLDER)
    # Newest first: if we die in between, what remains is an older version of the log.
    store.delete([logs.LAST_CHECKPOINT])
    for name in reversed(log_files):
        store.delete([name])
    store.delete(store.names(vectors.FOLDER))


def _remove_before(log: DeltaLog, begin: int) -> int:
    old_commits = [version for version in log.all_commits if version < begin]
    old_files = [name for name in log.all_files if 0 <= logs.version_of(name) < begin]
    if log.store.names(vectors.FOLDER):  # only keyed tables have any
        _remove_vectors(log, old_commits, begin)
    log.store.delete(old_files)
    return len(old_files)


def _remove_vectors(log: DeltaLog, old_commits: Iterable[int], begin: int) -> None:
    # Only vectors that the log refers to: others belong to a version that is being written.
    in_use = _vectors_of([{"add": file} for file in log.state().files.values()])
    for version in log.all_commits:
        if version >= begin:
            in_use |= _vectors_of(log.commit(version))
    old_vectors = set().union(
        *(_vectors_of(log.commit_if_whole(version)) for version in old_commits)
    )
    log.store.delete(sorted(old_vectors - in_use))


def _vectors_of(actions: Iterable[logs.Action]) -> set[str]:
    files = (action.get("add") or action.get("remove") or {} for action in actions)
    descriptors = (file.get("deletionVector") for file in files)
    return {vectors.file_name(vector) for vector in descriptors if vector}


def _log(catalog: RestCatalog, table: Table) -> DeltaLog:
    return DeltaLog(_store(catalog, table), topic_of(table))


def _store(catalog: RestCatalog, table: Table) -> Store:
    return store_at(delta_root(table), catalog.storage)
