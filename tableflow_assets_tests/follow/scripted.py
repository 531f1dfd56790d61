"""Topics, products, log and pipelines that follow a script: what the loop decides, without a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tableflow_assets.base.errors import InputMissing
from tableflow_assets.pipeline import Committed
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import RunResult
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings, Topic, TopicOptions
from tableflow_assets.source.log import TopicIdentity
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.tableflow import Tableflow


@dataclass
class Script:
    """One Kafka partition a topic. ``step``: offsets in one commit."""

    folder: Path
    ends: dict[str, int]
    committed: dict[str, int] = field(default_factory=dict)
    step: int = 1000
    turns: list[str] = field(default_factory=list)
    faults: dict[str, Callable[[], None]] = field(default_factory=dict)  # raised, or waited in
    lock: threading.Lock = field(default_factory=threading.Lock)
    options: dict[str, TopicOptions] = field(default_factory=dict)
    ages: dict[str, float] = field(default_factory=dict)  # of the oldest unread record, in seconds
    # Products by name, with the tables that each reads, and how many offsets it has taken in of them.
    products: dict[str, tuple[str, ...]] = field(default_factory=dict)
    taken_in: dict[str, dict[str, int]] = field(default_factory=dict)
    computing_seconds: float = 0.0

    def tableflow(self) -> Tableflow:
        return cast(Tableflow, _ScriptedTableflow(self))

    def topic(self, name: str) -> Topic:
        options = self.options.get(name, TopicOptions())
        return Settings(state_dir=self.folder, topics={name: options}).topics_among([name])[0]

    def version_of(self, table: str) -> int:
        if table in self.products:
            return sum(self.taken_in.get(table, {}).values())
        return self.committed.get(table, 0)

    def scripted_products(self) -> tuple[Product, ...]:
        made: dict[str, _ScriptedProduct] = {}
        for name, tables in self.products.items():
            inputs = tuple(_ScriptedInput(table) for table in tables)
            upstream = tuple(made[table] for table in tables if table in made)
            made[name] = _ScriptedProduct(name, inputs, upstream)
        return cast(tuple[Product, ...], tuple(made.values()))


@dataclass(frozen=True)
class _ScriptedInput:
    table: str


@dataclass(frozen=True)
class _ScriptedProduct:
    name: str
    inputs: tuple[_ScriptedInput, ...]
    upstream: tuple[_ScriptedProduct, ...]

    @property
    def spec(self) -> ManagedTable:
        return ManagedTable(name=self.name)


class _ScriptedTableflow:
    def __init__(self, script: Script) -> None:
        self._script = script
        self.log = self
        self.settings = Settings(state_dir=script.folder)
        self.products = script.scripted_products()

    def topics(self, _: Iterable[str]) -> list[Topic]:
        return [self._script.topic(name) for name in self._script.ends]

    def ends(self, names: Iterable[str]) -> dict[str, dict[int, int]]:
        return {name: {0: self._script.ends[name]} for name in names}

    def pipeline(self, topic: Topic) -> Any:
        return _ScriptedPipeline(topic, self._script)

    def handle(self, table: ManagedTable) -> Any:
        return table

    def runner(self, product: _ScriptedProduct) -> Any:
        return _ScriptedRunner(product, self._script)


class _ScriptedRunner:
    def __init__(self, product: _ScriptedProduct, script: Script) -> None:
        self._product, self._script = product, script

    def run(self, run_id: str) -> RunResult:
        name, script = self._product.name, self._script
        script.turns.append(name)
        if fault := script.faults.get(name):
            fault()
        with script.lock:
            inputs = {
                source.table: script.version_of(source.table) for source in self._product.inputs
            }
        if not all(inputs.values()):
            raise InputMissing("an input has no table yet", "wait")
        if script.taken_in.get(name) == inputs:
            return RunResult()
        time.sleep(script.computing_seconds)
        with script.lock:
            script.taken_in[name] = inputs
        return RunResult(rows_added=1, snapshot=len(script.turns))


class _ScriptedPipeline:
    def __init__(self, topic: Topic, script: Script) -> None:
        self.topic, self._script, self.state_dir = topic, script, script.folder
        self.log = self.catalog = self

    def find(self, _: str) -> None:
        """So that nothing is known of the size of its records."""

    def ages(self, places: dict[str, dict[int, int]]) -> dict[str, float]:
        return {name: self._script.ages[name] for name in places}

    def plan(self) -> Plan:
        name, script = self.topic.name, self._script
        script.turns.append(name)
        if fault := script.faults.get(name):
            fault()
        begin = script.committed.get(name, 0)
        identity = TopicIdentity(name, "cluster", "id", (0,))
        return Plan(identity, (OffsetRange(0, begin, script.ends[name]),))

    def materialize(
        self,
        planned: Plan,
        run_id: str,
        on_commit: Callable[[Plan, Committed], None],
        is_enough: Callable[[], bool],
    ) -> None:
        (offsets,) = planned.ranges
        at = offsets.start
        while at < offsets.end:
            to = min(at + self._script.step, offsets.end)
            step = Plan(planned.topic, (OffsetRange(0, at, to),))
            with self._script.lock:
                self._script.committed[self.topic.name] = at = to
            on_commit(step, Committed(step.size, 0, 0, (to,)))
            time.sleep(0.01)
            if is_enough():
                return

    def publish(self) -> list[Any]:
        return []
