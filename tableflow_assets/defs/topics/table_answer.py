"""What a table says when the sensor `new_offsets` asks it: how far it is, or why its topic is suspended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyiceberg.table import Table

from tableflow_assets.base.errors import DataLoss, LedgerError
from tableflow_assets.follow.due import record_bytes
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.source.log import Log, Offsets
from tableflow_assets.source.plan import plan, refuse_another_cluster
from tableflow_assets.table.known_tables import refuse_a_vanished_table
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.suspension import Suspension, suspend_if_possible, suspension_of
from tableflow_assets.table.whose import refuse_table_of_another


@dataclass(frozen=True)
class Standing:
    """``record_bytes``: that a record takes in the table's files; 0 if none is there yet."""

    committed: Offsets
    record_bytes: float


@dataclass
class Tables:
    log: Log
    catalog: RestCatalog
    settings: Settings

    @cached_property
    def cluster_id(self) -> str:
        return self.log.cluster_id()

    def ask(
        self, topic: Topic, end: Offsets, suspended: Suspension | None, is_doubted: bool
    ) -> Standing | Suspension:
        """The offsets it has committed, or why the topic is suspended, possibly as of now."""
        table = self.catalog.find(topic.table)
        if table is not None:
            refuse_table_of_another(table, topic)
            if suspension := suspension_of(table, topic):
                return suspension
        try:
            return Standing(self._committed(topic, table, end, is_doubted), record_bytes(table))
        except (LedgerError, DataLoss) as error:
            # A run would only fail the same way, so the suspension is recorded right here.
            stored = suspend_if_possible(self.catalog, topic, error)
            current = stored or Suspension.because_of(error, topic)
            return suspended if suspended and suspended.reason == current.reason else current

    def _committed(
        self, topic: Topic, table: Table | None, end: Offsets, is_doubted: bool
    ) -> Offsets:
        if table is None:
            refuse_a_vanished_table(self.settings.state_dir, topic, self.settings.namespace)
        if table is None or table.current_snapshot() is None:
            return {}  # an empty topic gets its table with its first record
        ledger = read_ledger(table)
        refuse_another_cluster(topic.name, self.cluster_id, ledger)
        if is_doubted or any(ledger.committed.get(p, 0) > offset for p, offset in end.items()):
            plan(self.log, self.log.identify(topic.name), ledger)  # raises what is wrong
        return ledger.committed
