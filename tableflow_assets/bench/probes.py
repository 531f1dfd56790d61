"""Produced → visible: records sent to several topics of the labs, awaited in their tables' ledgers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tableflow_assets import labs
from tableflow_assets.base.retry import poll_until
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.log import Offsets
from tableflow_assets.stack import connections
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow

# Each look reads a table's metadata: more often, and it would slow down what is being measured.
LOOK_SECONDS = 0.5
PAUSES_SECONDS = (10.0, 20.0)
LOST_SECONDS = 600.0


@dataclass
class Probes:
    """One thread a topic, until it is left."""

    settings: Settings
    topics: Sequence[str]
    seconds: list[float] = field(default_factory=list)
    lost: int = 0
    _closed: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Probes:
        kafka, registry = self._servers()
        labs.ensure_topics(kafka, registry, self.topics)
        self._threads = [
            threading.Thread(target=self._probe, args=(topic, number), daemon=True)
            for number, topic in enumerate(self.topics)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for thread in self._threads:
            thread.join()

    def _probe(self, topic: str, number: int) -> None:
        chance = random.Random(number)  # noqa: S311  (no secret)
        tableflow = Tableflow(self.settings)
        records = labs.generate_live(seed=time.time_ns() % 2**31 + number, topics=[topic])
        while not self._closed.wait(chance.uniform(*PAUSES_SECONDS)):
            labs.produce(*self._servers(), [next(records)])
            sent_at = time.monotonic()
            ends = tableflow.log.ends([topic])[topic]
            if self._await(tableflow, topic, ends):
                self.seconds.append(time.monotonic() - sent_at)
            elif not self._closed.is_set():
                self.lost += 1

    def _await(self, tableflow: Tableflow, topic: str, ends: Offsets) -> bool:
        table_name = tableflow.topic(topic).table

        def is_visible() -> bool:
            table = tableflow.catalog.find(table_name)
            if table is None or table.current_snapshot() is None:
                return False
            committed = read_ledger(table).committed
            return all(committed.get(partition, 0) >= end for partition, end in ends.items())

        def is_settled() -> bool:
            return self._closed.is_set() or is_visible()

        settled = poll_until(bool, is_settled, every=LOOK_SECONDS, within=LOST_SECONDS)
        return settled and not self._closed.is_set()

    def _servers(self) -> tuple[str, str]:
        return connections.kafka_address(self.settings), connections.registry_address(self.settings)
