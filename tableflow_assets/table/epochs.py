"""The logs that a table has read, one after the other: each is an epoch, with offsets of its own.

Rows of two epochs may have the same partition and offset. `_kafka.epoch` tells them apart, a column that a
table gets with its first rebase. Rows without a value there are of the first log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from pyiceberg.expressions import AlwaysFalse, BooleanExpression, IsNull, LessThan, Or
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import IntegerType

from tableflow_assets.decode.column_names import EPOCH_FIELD, KAFKA_COLUMN
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.source.log import Offsets, TopicIdentity
from tableflow_assets.table.change import change_table
from tableflow_assets.table.entries import first_entry
from tableflow_assets.table.ledger import Entry, Forgotten

COLUMN = f"{KAFKA_COLUMN}.{EPOCH_FIELD}"
_DOC = "Which of the topic's logs it is from: NULL for the first, and one more with every rebase"
# Their constructors accept a column's name, though their type hints do not say so.
_IsNull, _LessThan = cast(Any, (IsNull, LessThan))


def has_epochs(schema: Schema) -> bool:
    return COLUMN in schema.column_names


def with_epochs(catalog: RestCatalog, table: Table) -> Table:
    """The table with the column that tells epochs apart."""

    def add() -> None:
        if has_epochs(table.schema()):
            return
        with table.update_schema() as update:
            update.add_column((KAFKA_COLUMN, EPOCH_FIELD), IntegerType(), _DOC)

    change_table(catalog, table, add)
    return catalog.ask(table.refresh)


def of_earlier_logs(entry: Entry) -> BooleanExpression:
    """The rows that are not from the log that the table reads now."""
    if not entry.earlier:
        return AlwaysFalse()
    return Or(_IsNull(COLUMN), _LessThan(COLUMN, entry.epoch))


def is_of_current_log(entry: Entry) -> str:
    """SQL: whether a row is from the log that the table reads now."""
    return f"{COLUMN} = {entry.epoch}" if entry.earlier else "true"


def next_epoch(
    entry: Entry, topic: TopicIdentity, origin: Offsets, end: Offsets, lineage: str
) -> Entry:
    """The beginning of another log, which is read from ``origin`` on and ends at ``end`` now.

    What was erased stays erased: all that the new log has of those keys up to now. What concerns offsets of
    the old log, such as replays, has ended with it.
    """
    return replace(
        first_entry(topic, origin, lineage),
        kind="rebase",
        earlier=(*entry.earlier, entry.as_epoch),
        forgotten=tuple(Forgotten(erased.key_hash, dict(end)) for erased in entry.forgotten),
    )
