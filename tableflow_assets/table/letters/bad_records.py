"""What becomes of the records of a commit that cannot be decoded: kept, skipped, or a reason to stop."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from tableflow_assets.base.errors import UndecodableRecords
from tableflow_assets.base.spark_session import persisted
from tableflow_assets.decode.schemas import Schemas
from tableflow_assets.decode.unknown_ids import with_unknown_ids_classified
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.table.handle import TableHandle
from tableflow_assets.table.ledger import Entry
from tableflow_assets.table.letters.letters import keep_dead_letters
from tableflow_assets.table.location import own_location

EXAMPLES = 5


@dataclass(frozen=True)
class BadRecords:
    """As the topic's `bad_records` says."""

    handle: TableHandle
    topic: Topic
    registry: Registry
    schemas: Schemas

    def settle(self, bad: DataFrame, count: int, entry: Entry) -> None:
        with persisted(bad) as records:
            unknown_ids = self.schemas.left_out
            dead = with_unknown_ids_classified(records, unknown_ids, self.registry.has_schema)
            if self.topic.bad_records == "suspend":
                raise self._undecodable(dead, count)
            handle, letters = self.handle, self.topic.dead_letter_table
            keep_dead_letters(
                handle.spark,
                dead,
                handle.dead_letter_table,
                entry,
                self.topic.bad_records == "skip",
                own_location(self.topic, handle.catalog.namespace, letters),
            )

    def _undecodable(self, dead: DataFrame, count: int) -> UndecodableRecords:
        examples = dead.select("partition", "offset", "problem").limit(EXAMPLES).collect()
        problems = ", ".join(f"{r.problem} at {r.partition}:{r.offset}" for r in examples)
        return UndecodableRecords(
            f"{count} records of {self.topic.name!r} cannot be decoded ({problems}).",
            "Nothing was committed. Set `bad_records: dead_letter` to keep them aside and go on.",
        )
