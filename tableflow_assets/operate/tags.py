"""Names for states of a table: a tagged state stays readable, whatever expires."""

from __future__ import annotations

import re
from datetime import timedelta

from pyiceberg.table import Table

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.history import History
from tableflow_assets.operate.moments import TAG_NAME, Moment
from tableflow_assets.table.change import change_table
from tableflow_assets.table.snapshots import tags_of

RESERVED = "tableflow_"
# Tags left by a rebase, rebuild or rollback may be deleted; the ledger's own may not.
_REMOVABLE = re.compile(r"tableflow_before_(rebase|rebuild|rollback)_\d+")
LONGEST = timedelta(days=36500)


def create_tag(
    catalog: RestCatalog, table: Table, name: str, moment: Moment | None, keep_for: timedelta | None
) -> int:
    """Tag the state at a moment, or the current one; return its snapshot."""
    _refuse_a_bad_name(name)
    if keep_for is not None and not timedelta(0) < keep_for <= LONGEST:
        raise TableflowError("A tag is kept for a minute at least, and 36500 days at most.")
    history = History(table)
    if name in table.metadata.refs:
        raise TableflowError(
            f"{'.'.join(table.name())} has a tag or branch {name!r} already.",
            "Choose another name, or delete it first with --delete.",
        )
    snapshot = history.at(moment) if moment else history.head
    if snapshot is None:
        raise TableflowError(f"{'.'.join(table.name())} has no state yet.", "Let a run make it.")
    age = int(keep_for / timedelta(milliseconds=1)) if keep_for else None
    change_table(
        catalog,
        table,
        lambda: table.manage_snapshots().create_tag(snapshot.snapshot_id, name, age).commit(),
    )
    return snapshot.snapshot_id


def delete_tag(catalog: RestCatalog, table: Table, name: str) -> int:
    """Return the snapshot it was on, which stays until it expires."""
    if name.startswith(RESERVED) and not _REMOVABLE.fullmatch(name):
        raise _reserved(name)
    tags = tags_of(table)
    if name not in tags:
        names = ", ".join(sorted(tags)) or "none"
        raise TableflowError(
            f"{'.'.join(table.name())} has no tag {name!r}.", f"Its tags: {names}."
        )
    change_table(catalog, table, lambda: table.manage_snapshots().remove_tag(name).commit())
    return tags[name]


def _refuse_a_bad_name(name: str) -> None:
    if name.lower().startswith(RESERVED):
        raise _reserved(name)
    if not TAG_NAME.fullmatch(name) or name.lower() == "main":
        raise TableflowError(
            f"{name!r} cannot be a tag's name.",
            "Use up to 128 letters, digits, `_`, `-` and `.`, beginning with a letter.",
        )


def _reserved(name: str) -> TableflowError:
    return TableflowError(
        f"{name!r}: names that begin with {RESERVED!r} are Tableflow's own.", "Choose another name."
    )
