"""A topic that cannot go on by itself: why, since when, and the command that resolves it.

It is a property of the topic's table, beside the ledger: whoever opens the table sees it, and no run of
any process touches the table until it is removed. The property belongs to no snapshot, so a writer's
condition on the current snapshot still holds if it is set in the meantime.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction

from tableflow_assets.base.errors import (
    DataLoss,
    IncompatibleSchema,
    KeyIdentityChanged,
    LedgerError,
    Suspended,
    TableflowError,
    TableGone,
    TopicRecreated,
    UndecodableRecords,
    UnsupportedSchema,
)
from tableflow_assets.base.retry import retry_on_conflict
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.change import kept_changing
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.whose import refuse_table_of_another

PROPERTY = "tableflow.suspended"
# What no later run can fix by itself. An unreachable server or a lost race is not among these.
SUSPENDING = (
    DataLoss,
    TopicRecreated,  # before the family that it belongs to
    LedgerError,
    IncompatibleSchema,
    KeyIdentityChanged,
    UndecodableRecords,
    UnsupportedSchema,
)
# The arguments of `tableflow` that resolve each. None of them drops a row that the log no longer holds
# without asking: `rebuild` refuses that and says how many there are.
RESOLVED_BY = {
    DataLoss.__name__: "resume {topic} --accept-loss",
    TopicRecreated.__name__: "rebase {topic}",
    LedgerError.__name__: "rebuild {topic}",
}
ADVICE = {
    DataLoss.__name__: (
        "`{resolve}` names the lost offsets, asks, goes on after them and records them in the ledger; no"
        " row is dropped. Lengthen the topic's retention before it happens again."
    ),
    TopicRecreated.__name__: (
        "`{resolve}` keeps the rows and goes on with the new topic's records. `tableflow rebuild {topic}"
        " --lose-rows` replaces the rows by them, which asks and says how many are lost. Or use another"
        " namespace for the new topic."
    ),
    LedgerError.__name__: (
        "Mend the cause (point the settings back, roll the table back), then `tableflow resume {topic}`."
        " Or `{resolve}` replaces the rows with those of the log; it is refused if the log no longer holds"
        " all of them, and the old ones stay under a tag until it is deleted. If the log ends before the"
        " table does, `tableflow rebase {topic} --from end` keeps them."
    ),
    IncompatibleSchema.__name__: (
        "Register a version that only adds optional fields or widens types, then `{resolve}`."
    ),
    KeyIdentityChanged.__name__: (
        "Let the registry say again what it said when the table was created (restore the subject of the"
        " keys or, where it is new, set `key: raw`), then `{resolve}`. Or accept what it says now, and"
        " replace all rows by those of the log, if it still holds them: `tableflow rebuild {topic}`."
    ),
    UnsupportedSchema.__name__: "Register a version that can become a table, then `{resolve}`.",
    UndecodableRecords.__name__: (
        "Set `bad_records: dead_letter` to keep them aside and go on, then `{resolve}`."
    ),
}
ATTEMPTS, JITTER_SECONDS = 10, 0.05
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Suspension:
    """``error`` is the name of its class; ``since`` in ISO format, UTC; ``resolve`` a command."""

    reason: str
    error: str
    since: str
    resolve: str

    @classmethod
    def because_of(cls, error: TableflowError, topic: ManagedTable) -> Suspension:
        kind = next(kind for kind in SUSPENDING if isinstance(error, kind)).__name__
        return cls(
            reason=error.problem,
            error=kind,
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            resolve=f"tableflow {RESOLVED_BY.get(kind, 'resume {topic}').format(topic=topic.name)}",
        )

    def to_property(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_property(cls, text: str, topic: ManagedTable) -> Suspension:
        try:
            document = json.loads(text)
            return cls(**{name: str(document[name]) for name in cls.__annotations__})
        except (ValueError, TypeError, KeyError):  # set by hand: somebody still wants it stopped
            return cls(text, error="", since="", resolve=f"tableflow resume {topic.name}")

    def to_error(self, topic: ManagedTable) -> Suspended:
        advice = ADVICE.get(self.error, "`{resolve}` ends it.")
        since = f" since {self.since}" if self.since else ""
        return Suspended(
            f"The topic {topic.name!r} is suspended{since}: {self.reason}",
            advice.format(topic=topic.name, resolve=self.resolve),
        )


def suspension_of(table: Table, topic: ManagedTable) -> Suspension | None:
    """As of when the table was loaded; makes no request."""
    text = table.properties.get(PROPERTY)
    return Suspension.from_property(text, topic) if text else None


def find_suspension(
    catalog: RestCatalog, topic: ManagedTable, state_dir: Path
) -> Suspension | None:
    """As it is now. A table that has vanished counts as suspended too, though it has no property."""
    table = catalog.find(topic.table)
    if table is not None:
        return suspension_of(table, topic)
    try:
        refuse_a_vanished_table(state_dir, topic, catalog.namespace)
    except TableGone as error:
        return Suspension.because_of(error, topic)
    return None


@contextmanager
def suspending(catalog: RestCatalog, topic: ManagedTable) -> Iterator[Table | None]:
    """Refuses a suspended topic; suspends it where the body meets what no later run can mend.

    Yields the table as it was loaded to look, None where there is none.
    """
    table = catalog.find(topic.table)
    if table is not None:
        refuse_table_of_another(table, topic)
        if existing := suspension_of(table, topic):
            raise existing.to_error(topic)
    try:
        yield table
    except SUSPENDING as error:
        suspension = suspend_if_possible(catalog, topic, error)
        if suspension is None:
            raise
        raise suspension.to_error(topic) from error


def suspend(catalog: RestCatalog, topic: ManagedTable, error: TableflowError) -> Suspension | None:
    """Record it, once; the first reason stays. None where there is no table to record it on."""
    table = catalog.find(topic.table)
    # A table that vanished and is back was only out of sight, as while a catalog starts.
    if table is None or isinstance(error, TableGone):
        return None
    suspension = Suspension.because_of(error, topic)

    def write(transaction: Transaction) -> None:
        transaction.set_properties({PROPERTY: suspension.to_property()})

    _change(catalog, table, lambda: suspension_of(table, topic) is not None, write)
    return suspension_of(table, topic)


def suspend_if_possible(
    catalog: RestCatalog, topic: ManagedTable, error: TableflowError
) -> Suspension | None:
    """As ``suspend``; None also where it could not be recorded."""
    try:
        return suspend(catalog, topic, error)
    except Exception as failure:  # the original error is the one to report
        logger.warning("%s could not be marked as suspended: %s", topic.name, failure)
        return None


def clear(catalog: RestCatalog, topic: ManagedTable) -> Suspension | None:
    """End the suspension and return it; None if there was none."""
    table = catalog.find(topic.table)
    if table is None or (suspension := suspension_of(table, topic)) is None:
        return None

    def remove(transaction: Transaction) -> None:
        transaction.remove_properties(PROPERTY)

    _change(catalog, table, lambda: suspension_of(table, topic) is None, remove)
    return suspension


def _change(
    catalog: RestCatalog,
    table: Table,
    is_done: Callable[[], bool],
    change: Callable[[Transaction], None],
) -> None:
    """Commit a change of properties, although other commits to the table may come first."""

    def commit() -> None:
        with table.transaction() as transaction:
            change(transaction)

    def change_unless_done() -> None:
        if not is_done():
            catalog.ask(commit)

    def look() -> None:
        catalog.ask(table.refresh)

    try:
        retry_on_conflict(
            change_unless_done,
            ATTEMPTS,
            CommitFailedException,
            jitter=JITTER_SECONDS,
            before_retry=look,
        )
    except CommitFailedException as error:
        look()
        if not is_done():
            raise kept_changing(table) from error
