"""The CPU time of the embedded servers, of Dagster's runs and of this process."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tableflow_assets.stack.state import StackState

RUNS, MYSELF = "runs of Dagster", "this process"
_LAUNCHES_RUNS = "code_server"


@dataclass(frozen=True)
class CpuReading:
    """CPU seconds so far, by server."""

    at: float
    seconds: Mapping[str, float]

    def since(self, earlier: CpuReading) -> dict[str, float]:
        return {
            name: spent - earlier.seconds.get(name, 0.0) for name, spent in self.seconds.items()
        }

    def rates_since(self, earlier: CpuReading) -> dict[str, float]:
        """Cores, by server."""
        elapsed = self.at - earlier.at
        return {name: spent / elapsed for name, spent in self.since(earlier).items()}


def read_cpu(state_dir: Path) -> CpuReading:
    """The embedded servers have to be running: those of others cannot be looked into."""
    seconds: dict[str, float] = {MYSELF: _of(psutil.Process())}
    for server, record in StackState.load(state_dir).processes.items():
        process = record.find()
        if process is None:
            continue
        tree = _of_tree(process)
        if server == _LAUNCHES_RUNS:
            seconds[server] = _of(process)
            seconds[RUNS] = tree - seconds[server]
        else:
            seconds[server] = tree
    return CpuReading(time.monotonic(), seconds)


def cores(before: CpuReading, after: CpuReading, without: str = "") -> dict[str, Any]:
    rates = after.rates_since(before)
    rates.pop(without, None)
    largest_first = sorted(rates.items(), key=lambda item: -item[1])
    return {
        "cores": round(sum(rates.values()), 2),
        "cores_by_server": {name: round(rate, 2) for name, rate in largest_first},
    }


def _of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _of_tree(process: psutil.Process) -> float:
    """With its descendants, those that have ended included."""
    spent = 0.0
    for member in [process, *process.children(recursive=True)]:
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:  # since we looked; its parent has its time next time
            continue
        spent += times.user + times.system + times.children_user + times.children_system
    return spent
