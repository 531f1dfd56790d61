"""All the maintenance a table needs, in one go: a step that fails does not stop the others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.maintenance.health import Health, Kind, health
from tableflow_assets.operate.maintenance.manifests import rewrite_manifests
from tableflow_assets.operate.maintenance.old_metadata import remove_old_metadata
from tableflow_assets.operate.maintenance.orphans import remove_orphans
from tableflow_assets.operate.retention import drop_old_windows
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.handle import TableHandle

# Rows are dropped before they would be compacted; what compaction leaves behind expires after it.
ORDER: tuple[Kind, ...] = (
    "mirror",
    "retention",
    "compact",
    "manifests",
    "expire",
    "metadata",
    "orphans",
)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class MaintenanceStep:
    """``result``: what the step reports; or the ``error`` that it ended with."""

    kind: Kind
    why: str
    state: Literal["begins", "done", "failed", "would be done"]
    result: Any = None
    error: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        result = self.result.to_json() if hasattr(self.result, "to_json") else self.result
        return asdict(self) | {"result": result}


@dataclass(frozen=True)
class Maintained:
    topic: str
    dry_run: bool
    steps: tuple[MaintenanceStep, ...]

    @property
    def failed(self) -> tuple[MaintenanceStep, ...]:
        return tuple(step for step in self.steps if step.state == "failed")

    def to_json(self) -> dict[str, Any]:
        steps = [step.to_json() for step in self.steps]
        return {"topic": self.topic, "dry_run": self.dry_run, "steps": steps}


OnStep = Callable[[MaintenanceStep], None]


def maintain(
    handle: TableHandle, *, dry_run: bool = False, on_step: OnStep = lambda _: None
) -> Maintained:
    """Do what ``health`` says is needed. ``on_step``: called when a step begins and when it ends."""
    steps: list[MaintenanceStep] = []
    current_health = _health(handle)
    for kind in ORDER:
        # Every step may change what the next one needs.
        current_health = current_health if dry_run or not steps else _health(handle)
        if kind not in current_health.kinds:
            continue
        why = current_health.why(kind)
        if dry_run:
            steps.append(MaintenanceStep(kind, why, "would be done"))
        else:
            on_step(MaintenanceStep(kind, why, "begins"))
            steps.append(_run(handle, kind, why))
        on_step(steps[-1])
    return Maintained(handle.spec.name, dry_run, tuple(steps))


def _health(handle: TableHandle) -> Health:
    return health(handle.catalog, handle.spec)


def _run(handle: TableHandle, kind: Kind, why: str) -> MaintenanceStep:
    started = time.monotonic()

    def seconds() -> float:
        return round(time.monotonic() - started, 2)

    try:
        result = _STEPS[kind](handle)
        return MaintenanceStep(kind, why, "done", result, seconds=seconds())
    except Exception as error:
        logger.warning("%s: %s failed: %s", handle.spec.name, kind, error)
        return MaintenanceStep(kind, why, "failed", error=str(error), seconds=seconds())


def _drop_old_windows(handle: TableHandle) -> Any:
    return drop_old_windows(handle, run_id="maintenance")


def _mirror(handle: TableHandle) -> dict[str, int]:
    return {"versions": catch_up(handle.catalog, handle.existing_table())}


_STEPS: dict[Kind, Callable[[TableHandle], Any]] = {
    "mirror": _mirror,
    "retention": _drop_old_windows,
    "compact": compact,
    "manifests": rewrite_manifests,
    "expire": expire,
    "metadata": remove_old_metadata,
    "orphans": remove_orphans,
}
