"""The tables that a query names, as they were at one moment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from tableflow_assets.base.errors import NoSuchState, TableflowError
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.operate.history import History
from tableflow_assets.operate.moments import Moment
from tableflow_assets.query import duckdb
from tableflow_assets.table.formats import delta_root, is_delta, topic_of
from tableflow_assets.table.snapshots import tags_of

TableFormat = Literal["iceberg", "delta"]
States = dict[str, Snapshot | TableflowError]
ASKS_FOR_ALL = {"show", "tables", "duckdb_tables", "duckdb_views"}


@dataclass
class Views:
    """By table: how to read it, or why it cannot be read."""

    sources: dict[str, str] = field(default_factory=dict)
    missing: dict[str, TableflowError] = field(default_factory=dict)


def views_of(
    catalog: RestCatalog, sql: str, moment: Moment | None, table_format: TableFormat
) -> Views:
    """Only of the tables that the query may refer to: each costs a call to the catalog."""
    loaded = {name: catalog.find(name) for name in named_in(sql, catalog.tables())}
    tables = {name: table for name, table in loaded.items() if table is not None}
    states: Mapping[str, Snapshot | TableflowError | None]
    states = states_at(tables, moment) if moment else dict.fromkeys(tables)
    views = Views()
    for name, state in states.items():
        try:
            if isinstance(state, TableflowError):
                raise state
            views.sources[name] = (
                _in_delta(catalog, tables[name], state)
                if table_format == "delta"
                else _in_iceberg(catalog, name, state)
            )
        except TableflowError as why:
            # The query may not refer to it at all: a column can have the name of a table.
            views.missing[name] = why
    return views


def named_in(sql: str, tables: Iterable[str]) -> list[str]:
    """Better too many than too few: all tables, if the query asks which ones exist."""
    words = set(re.findall(r"\w+", sql.lower()))  # tables' names are lower case
    return [name for name in sorted(tables) if name in words or words & ASKS_FOR_ALL]


def states_at(tables: Mapping[str, Table], moment: Moment) -> States:
    """If only one table has the tag or snapshot, the others are read as of its time."""
    histories = {name: History(table) for name, table in tables.items()}
    knowing = [name for name, history in histories.items() if _knows(history, moment)]
    if tables and not knowing and moment.time is None:
        kind = "tag" if moment.tag else "snapshot"
        raise NoSuchState(
            f"No table of the query has the {kind} {moment.text!r}.",
            "See a table's snapshots and tags with `tableflow history TOPIC`.",
        )
    states: States = {}
    for name, history in histories.items():
        at = moment
        if name not in knowing and moment.time is None:
            if len(knowing) > 1:  # which of their times is meant?
                states[name] = NoSuchState(
                    f"{name} has no tag {moment.text!r}, but {' and '.join(knowing)} have.",
                    "Tag this one too, or name a time.",
                )
                continue
            owner = histories[knowing[0]]
            at = replace(moment, snapshot=None, tag=None, time=owner.since(owner.at(moment)))
        try:
            states[name] = history.at(at)
        except NoSuchState as why:
            states[name] = why
    return states


def _knows(history: History, moment: Moment) -> bool:
    if moment.tag is not None:
        return moment.tag in tags_of(history.table)
    return moment.snapshot in history.snapshots


def delta_versions(catalog: RestCatalog, table: Table) -> Mapping[int, int]:
    """By Iceberg snapshot, the version of the Delta log that mirrors it."""
    from tableflow_assets.table.delta.lifecycle import versions

    return versions(catalog, table) if is_delta(table) else {}


def _in_iceberg(catalog: RestCatalog, name: str, state: Snapshot | None) -> str:
    return duckdb.iceberg_source(catalog.namespace, name, state.snapshot_id if state else None)


def _in_delta(catalog: RestCatalog, table: Table, state: Snapshot | None) -> str:
    name = ".".join(table.name())
    if not is_delta(table):
        raise TableflowError(
            f"{name} is not kept as a Delta table.",
            "Read it with `--format iceberg`, or add `delta` to the topic's `formats`.",
        )
    if state is None:
        return duckdb.delta_source(delta_root(table))
    version = delta_versions(catalog, table).get(state.snapshot_id)
    if version is None:
        raise NoSuchState(
            f"The Delta log of {name} has no version of snapshot {state.snapshot_id}, or has it no"
            " longer.",
            f"Read it with `--format iceberg`; see `tableflow history {topic_of(table)}`.",
        )
    return duckdb.delta_source(delta_root(table), version)
