"""Topics, log and pipelines that follow a script: for the loop's own decisions, without a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tableflow_assets.pipeline import Committed
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

    def tableflow(self) -> Tableflow:
        return cast(Tableflow, _ScriptedTableflow(self))

    def topic(self, name: str) -> Topic:
        return Settings(state_dir=self.folder, topics={name: TopicOptions()}).topics_among([name])[
            0
        ]


class _ScriptedTableflow:
    def __init__(self, script: Script) -> None:
        self._script = script
        self.log = self

    def topics(self, _: Iterable[str]) -> list[Topic]:
        return [self._script.topic(name) for name in self._script.ends]

    def ends(self, names: Iterable[str]) -> dict[str, dict[int, int]]:
        return {name: {0: self._script.ends[name]} for name in names}

    def pipeline(self, topic: Topic) -> Any:
        return _ScriptedPipeline(topic, self._script)


class _ScriptedPipeline:
    def __init__(self, topic: Topic, script: Script) -> None:
        self.topic, self._script, self.state_dir = topic, script, script.folder

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
