"""The Delta log as a whole: kept or not, how far it is, what of it can go, and made anew."""

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
from tableflow_assets.table.delta.mirror import (
    catch_up,
    follow,
    has_columns_of,
    mirrored,
    write_anew,
    written_by_us,
)
from tableflow_assets.table.delta.store import Store, store_at
from tableflow_assets.table.formats import delta_root, is_delta, keep_formats, topic_of


@dataclass(frozen=True)
class MirrorStatus:
    """How far a table's Delta log is. ``behind``: states of the table that it does not have yet."""

    version: int  # -1: there is no log
    behind: int
    problem: str = ""
    snapshot: int | None = None  # the state that it shows


def keep_in_step(catalog: RestCatalog, table: Table, topic: ManagedTable) -> None:
    """As the settings say: a log that shows what the table was when it was loaded, or none."""
    if is_delta(table) and "delta" not in topic.formats:
        # Else it would go on to promise files that compaction removes. Before the table says that it
        # has none: whoever dies in between is followed by one who sees it.
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
    reached = MirrorStatus(last.version, 0, snapshot=last.snapshot)
    if head is None or (last.snapshot == head.snapshot_id and has_columns):
        return reached
    steps = states_since(table, last.snapshot, head)
    return replace(reached, behind=len(steps) if steps else 1)


def versions(catalog: RestCatalog, table: Table) -> dict[int, int]:
    """By snapshot, the newest Delta version that mirrors it; of those that the log still holds."""
    log = _log(catalog, table)
    found = {}
    for version in log.all_commits:
        if ours := written_by_us(log.commit_if_whole(version)):
            found[int(ours["snapshot"])] = version
    return found


def trim(catalog: RestCatalog, table: Table) -> int:
    """Remove the part of the log whose files are gone with expired snapshots; return how many went.

    Readers need a checkpoint to begin with: the part before the newest checkpoint that is still
    needed goes.
    """
    log = _log(catalog, table)
    commits, live = log.all_commits, {one.snapshot_id for one in table.snapshots()}
    if not commits:
        return 0
    readable = commits[-1]
    for version in commits:
        ours = written_by_us(log.commit_if_whole(version))
        if ours and int(ours["snapshot"]) in live:
            readable = version
            break
    begin = max((one for one in log.all_checkpoints if one <= readable), default=-1)
    return _remove_before(log, begin) if begin > 0 else 0


def purge(catalog: RestCatalog, table: Table) -> None:
    """Leave nothing in the log but the table as it is: no older versions, no values of theirs."""
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
    """Make the log say what the Iceberg table says, whatever is wrong with it; return the version."""
    try:
        return write_anew(catalog, table)
    except MirrorError:
        return remake(catalog, table)


def remake(catalog: RestCatalog, table: Table) -> int:
    """A new log, from version 0 on; return its version."""
    drop(catalog, table)
    return write_anew(catalog, table)


def drop(catalog: RestCatalog, table: Table) -> None:
    store = _store(catalog, table)
    log_files = store.names(logs.FOLDER)
    # The newest first, whoever dies in between: what is left then is an older version of the log.
    store.delete([logs.LAST_CHECKPOINT])
    for name in reversed(log_files):
        store.delete([name])
    store.delete(store.names(vectors.FOLDER))


def _remove_before(log: DeltaLog, begin: int) -> int:
    gone = [version for version in log.all_commits if version < begin]
    old = [name for name in log.all_files if 0 <= logs.version_of(name) < begin]
    if log.store.names(vectors.FOLDER):  # only tables with keys have some
        _remove_vectors(log, gone, begin)
    log.store.delete(old)
    return len(old)


def _remove_vectors(log: DeltaLog, gone: Iterable[int], begin: int) -> None:
    # Only vectors that the log has known: others belong to a version that is being written.
    in_use = _vectors_of([{"add": file} for file in log.state().files.values()])
    for version in log.all_commits:
        if version >= begin:
            in_use |= _vectors_of(log.commit(version))
    known = set().union(*(_vectors_of(log.commit_if_whole(version)) for version in gone))
    log.store.delete(sorted(known - in_use))


def _vectors_of(actions: Iterable[logs.Action]) -> set[str]:
    files = (action.get("add") or action.get("remove") or {} for action in actions)
    found = (file.get("deletionVector") for file in files)
    return {vectors.file_name(vector) for vector in found if vector}


def _log(catalog: RestCatalog, table: Table) -> DeltaLog:
    return DeltaLog(_store(catalog, table), topic_of(table))


def _store(catalog: RestCatalog, table: Table) -> Store:
    return store_at(delta_root(table), catalog.storage)
