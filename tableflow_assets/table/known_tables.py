"""Which tables once existed, so that a dropped one is not quietly created again.

Only a hint in the state folder: without it, a dropped table looks like one that never existed.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

from pyiceberg.table import Table

from tableflow_assets.base.errors import TableflowError, TableGone
from tableflow_assets.base.versioned import read_versioned, write_versioned
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.whose import refuse_table_of_another


def remember(state_dir: Path, topic: ManagedTable, uuid: UUID, namespace: str) -> None:
    """Note the table's uuid; if it is already known, that costs reading one small file."""
    name, text = _name(topic, namespace), str(uuid)
    if remembered(state_dir).get(name) == text:
        return
    with _only_writer(state_dir):
        _write(state_dir, remembered(state_dir) | {name: text})


def is_remembered(state_dir: Path, topic: ManagedTable, namespace: str) -> bool:
    return _name(topic, namespace) in remembered(state_dir)


def forget(state_dir: Path, topic: ManagedTable, namespace: str) -> None:
    """Allow the table to be created again."""
    name = _name(topic, namespace)
    if name not in remembered(state_dir):
        return
    with _only_writer(state_dir):
        _write(state_dir, {n: u for n, u in remembered(state_dir).items() if n != name})


def refuse_a_vanished_table(state_dir: Path, topic: ManagedTable, namespace: str) -> None:
    """Call this if the catalog has no such table."""
    name = _name(topic, namespace)
    if (uuid := remembered(state_dir).get(name)) is not None:
        raise TableGone(
            f"The table {name} (uuid {uuid}) of {topic.name!r} is gone from the catalog: dropped or"
            " renamed by somebody, or the settings lead to another catalog.",
            "Bring it back. Or make it again from what the log still holds, which asks before it gives up"
            f" what the log has lost: `tableflow rebuild {topic.name}`.",
        )


def existing_table(
    catalog: RestCatalog, state_dir: Path, topic: ManagedTable, to: str = ""
) -> Table:
    """``to``: what the caller wants to do, if that needs rows: creating the table would not help then."""
    table = catalog.find(topic.table)
    if table is not None:
        refuse_table_of_another(table, topic)
        return table
    refuse_a_vanished_table(state_dir, topic, catalog.namespace)
    if to:
        raise TableflowError(
            f"The topic {topic.name!r} has no table: there is nothing to {to}.",
            "Check the topic's name with `tableflow status`.",
        )
    raise TableflowError(
        f"The topic {topic.name!r} has no table yet.",
        f"Make it: tableflow materialize {topic.name}",
    )


def remembered(state_dir: Path) -> dict[str, str]:
    """Namespace and table → uuid."""
    try:
        uuids = read_versioned(_file(state_dir))
        return {str(name): str(uuid) for name, uuid in uuids.items()}
    except (FileNotFoundError, ValueError, AttributeError, KeyError):
        return {}


def _write(state_dir: Path, uuids: dict[str, str]) -> None:
    write_versioned(_file(state_dir), dict(sorted(uuids.items())))


@contextmanager
def _only_writer(state_dir: Path) -> Iterator[None]:
    """Runs of different tables, in different processes, share the file."""
    state_dir.mkdir(parents=True, exist_ok=True)
    with (state_dir / "tables.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _name(topic: ManagedTable, namespace: str) -> str:
    return f"{namespace}.{topic.table}"


def _file(state_dir: Path) -> Path:
    return state_dir / "tables.json"
