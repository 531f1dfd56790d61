"""How each kind of fault is inflicted. A fault that comes after the run has ended is not a hit."""

from __future__ import annotations

import random
import signal
import time
from dataclasses import dataclass

from tableflow_assets.base.boundary import Boundary
from tableflow_assets.chaos.driver_process import Driver, Drivers
from tableflow_assets.chaos.kinds import (
    AT_BOUNDARY,
    MAINTAINING_SERVERS,
    OF_MAINTENANCE,
    SERVERS,
)
from tableflow_assets.chaos.servers import kill_server
from tableflow_assets.stack.supervisor import Supervisor

LONGEST_TYPICAL_SECONDS = 8.0
LONGEST_TYPICAL_MAINTENANCE_SECONDS = 20.0


@dataclass
class Arena:
    """What faults are inflicted on."""

    topics: list[str]
    drivers: Drivers
    stack: Supervisor | None  # None: its servers are not ours to kill
    chance: random.Random
    typical_seconds: float = 3.0  # of an undisturbed run
    typical_maintenance_seconds: float = 8.0  # the same, followed by maintenance

    def start(self, *arguments: str) -> Driver:
        return self.drivers.start(*arguments, *self.in_any_order())

    def in_any_order(self) -> list[str]:
        return self.chance.sample(self.topics, len(self.topics))

    def learn(self, seconds: float) -> None:
        """How long a run took. A single slow run must not make the next faults come too late."""
        self.typical_seconds = min(LONGEST_TYPICAL_SECONDS, (self.typical_seconds + seconds) / 2)

    def learn_maintenance(self, driver: Driver) -> None:
        """The same for a run with maintenance; a killed one teaches us nothing."""
        begin, end = driver.event("working"), driver.event("done")
        if begin and end:
            seconds = (self.typical_maintenance_seconds + end["at"] - begin["at"]) / 2
            self.typical_maintenance_seconds = min(LONGEST_TYPICAL_MAINTENANCE_SECONDS, seconds)

    def random_moment_of(self, driver: Driver) -> bool:
        """Wait for a random moment of the run; False if the run ends before."""
        return self._random_moment(driver, "working", self.typical_seconds)

    def random_moment_of_maintenance(self, driver: Driver) -> bool:
        return self._random_moment(driver, "maintaining", self.typical_maintenance_seconds)

    def _random_moment(self, driver: Driver, begin: str, longest: float) -> bool:
        driver.until(lambda: driver.event(begin))
        moment = time.monotonic() + self.chance.uniform(0, longest)
        driver.until(lambda: time.monotonic() > moment)
        return driver.is_alive


@dataclass(frozen=True)
class Struck:
    """The outcome of a fault. ``drivers``: those whose errors go into the report."""

    hit: bool
    drivers: tuple[Driver, ...]
    hung: int = 0
    boundary: Boundary | None = None


def strike(kind: str, arena: Arena) -> Struck:
    if kind in SERVERS:
        return _server(kind, arena)
    if kind in AT_BOUNDARY:
        return _at_boundary(AT_BOUNDARY[kind], arena)
    if kind in MAINTAINING_SERVERS:
        return _maintaining_server(MAINTAINING_SERVERS[kind], arena)
    strikes = {
        "driver": _driver,
        "two_runs": _two_runs,
        "zombie": _zombie,
        "maintainer": _maintainer,
        "maintained": _maintained,
    }
    return strikes[kind](arena)


def _driver(arena: Arena) -> Struck:
    """The run is killed at a random moment."""
    driver = arena.start("--run-id", "driver")
    arena.random_moment_of(driver)
    driver.kill()
    return Struck(driver.exit_code == -signal.SIGKILL, (driver,))


def _server(name: str, arena: Arena) -> Struck:
    """A server is killed at a random moment during a run."""
    if arena.stack is None:
        raise AssertionError(f"{name} cannot be killed without a stack of our own")
    driver = arena.start("--run-id", name)
    hit = arena.random_moment_of(driver) and kill_server(arena.stack, name)
    return Struck(hit, (driver,), hung=_hung(driver))


def _maintaining_server(name: str, arena: Arena) -> Struck:
    """A server is killed at a random moment during maintenance."""
    if arena.stack is None:
        raise AssertionError(f"{name} cannot be killed without a stack of our own")
    driver = arena.start("--run-id", name, "--maintain")
    hit = arena.random_moment_of_maintenance(driver) and kill_server(arena.stack, name)
    hung = _hung(driver)
    if not hit:
        arena.learn_maintenance(driver)
    return Struck(hit, (driver,), hung)


def _maintainer(arena: Arena) -> Struck:
    """Maintenance alongside a run of the same topics; the maintenance is killed at a random moment."""
    run, maintainer = _side_by_side(arena)
    arena.random_moment_of_maintenance(maintainer)
    maintainer.kill()
    arena.learn_maintenance(maintainer)
    return Struck(maintainer.exit_code == -signal.SIGKILL, (run, maintainer), _hung(run))


def _maintained(arena: Arena) -> Struck:
    """The same, but the run is killed."""
    run, maintainer = _side_by_side(arena)
    arena.random_moment_of(run)
    run.kill()
    hung = _hung(maintainer)
    arena.learn_maintenance(maintainer)
    return Struck(run.exit_code == -signal.SIGKILL, (run, maintainer), hung)


def _side_by_side(arena: Arena) -> tuple[Driver, Driver]:
    arena.drivers.warm_up(2)
    maintainer = arena.start("--run-id", "maintainer", "--maintain")
    return arena.start("--run-id", "beside"), maintainer


def _at_boundary(boundary: Boundary, arena: Arena) -> Struck:
    """The run, or maintenance, kills itself between two steps, on a random topic."""
    # Only the keyed table has deletion vectors.
    nth = 1 if boundary == "vectors_written" else arena.chance.randint(1, len(arena.topics))
    maintains = ("--maintain",) if boundary in OF_MAINTENANCE else ()
    fate = ("--at", boundary, "--do", "kill", "--nth", str(nth))
    arguments = ("--run-id", boundary, *maintains, *fate)
    if boundary == "before_event":  # between the table's commit and Dagster's event
        driver = arena.drivers.start_cold("--dagster", *arguments, *arena.in_any_order())
    else:
        driver = arena.start(*arguments)
    hung = _hung(driver)
    hit = driver.exit_code == -signal.SIGKILL and driver.event("reached") is not None
    return Struck(hit, (driver,), hung, boundary if hit else None)


def _two_runs(arena: Arena) -> Struck:
    """Two runs of the same topics at the same time."""
    arena.drivers.warm_up(2)
    order = arena.in_any_order()
    drivers = tuple(arena.drivers.start("--run-id", f"run-{n}", *order) for n in (1, 2))
    hung = sum(_hung(driver) for driver in drivers)
    begins = [driver.event("working") for driver in drivers]
    ends = [driver.event("done") for driver in drivers]
    last_begin = max((event["at"] for event in begins if event), default=0.0)
    first_end = min((event["at"] for event in ends if event), default=float("inf"))
    return Struck(all(begins) and last_begin < first_end, drivers, hung)


def _zombie(arena: Arena) -> Struck:
    """A run is stopped just before its commit, another commits the same records, the first resumes."""
    boundary: Boundary = "dead_letters_kept"
    nth = arena.chance.randint(1, len(arena.topics))
    zombie = arena.start("--run-id", "zombie", "--at", boundary, "--do", "stop", "--nth", str(nth))
    arena.drivers.warm_up(1)
    if not zombie.until(lambda: zombie.is_stopped):
        return Struck(hit=False, drivers=(zombie,), hung=_hung(zombie))
    passer = arena.start("--run-id", "passer")
    hung = _hung(passer)
    topic = (zombie.event("topic") or {})["topic"]
    has_passed = any(e.get("topic") == topic and e.get("commits") for e in passer.events())
    zombie.resume()
    hung += _hung(zombie)
    return Struck(has_passed, (zombie, passer), hung, boundary if has_passed else None)


def _hung(driver: Driver) -> int:
    return 0 if driver.has_ended() else 1
