"""The latency of one record: sent to Kafka, awaited in DuckDB."""

from __future__ import annotations

import time
import uuid

from tableflow_assets import labs
from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack import connections
from tableflow_assets.tableflow import Tableflow

TOPIC = "payments"
POLL_SECONDS = 0.2


class Probe:
    def __init__(self, settings: Settings) -> None:
        self._kafka = connections.kafka_address(settings)
        self._registry = connections.registry_address(settings)
        self._catalog = Tableflow(settings).catalog
        self._records = labs.generate_live(seed=uuid.uuid4().int % 2**31, topics=[TOPIC])
        labs.ensure_topics(self._kafka, self._registry, [TOPIC])

    def measure(self, timeout: float) -> float:
        """Seconds from the producer's acknowledgement until DuckDB counts the record."""
        record = next(self._records)
        code = f"probe-{uuid.uuid4().hex[:12]}"
        record.value["confirmation_code"] = code
        labs.produce(self._kafka, self._registry, [record])
        sent_at = time.monotonic()
        snapshot = None

        def is_visible() -> bool:
            # One DuckDB query per snapshot: one every 0.2 s would slow down what is being measured.
            nonlocal snapshot
            last_snapshot, snapshot = snapshot, self._newest_snapshot()
            return snapshot != last_snapshot and self._is_visible(code)

        if not poll_until(bool, is_visible, every=POLL_SECONDS, within=timeout):
            raise TableflowError(
                f"The record {code} was not visible after {timeout:.0f} s.",
                "Is the new_offsets sensor on, and does `tableflow stack status` say ready?",
            )
        return time.monotonic() - sent_at

    def _newest_snapshot(self) -> int | None:
        table = self._catalog.find(TOPIC)
        return table.metadata.current_snapshot_id if table else None

    def _is_visible(self, code: str) -> bool:
        # A new connection each time: DuckDB caches a catalog's table as it first saw it.
        connection = connect_duckdb(self._catalog.connection, self._catalog.storage)
        try:
            row = connection.execute(
                f"SELECT count(*) FROM {TOPIC} WHERE confirmation_code = ?",  # noqa: S608
                [code],
            ).fetchone()
        finally:
            connection.close()
        return bool(row and row[0])
