"""The harness: produce without pause, break a run, see it recover, compare everything, repeat."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tableflow_assets.base.errors import TableflowError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.chaos.driver_process import Driver, Drivers
from tableflow_assets.chaos.faults import Arena, strike
from tableflow_assets.chaos.generation import Generation
from tableflow_assets.chaos.judge import NOTHING_WRONG, Findings, Verify, verify_topic
from tableflow_assets.chaos.kinds import MAINTENANCE
from tableflow_assets.chaos.report import Fault, Report
from tableflow_assets.chaos.servers import await_servers
from tableflow_assets.settings.settings import Settings
from tableflow_assets.stack.supervisor import Supervisor

# New topics after this many: every commit adds files, and all of them are read after every fault.
FAULTS_A_GENERATION = 24
ATTEMPTS_TO_HIT = 6
ATTEMPTS_TO_CATCH_UP = 4
PAUSE_SECONDS = 2.0
STANDBYS = 1
SAMPLED_AT_THE_END = 200  # rows per table, compared value by value

_DAGSTER_YAML = """\
telemetry: {enabled: false}
concurrency: {pools: {default_limit: 1, granularity: op}}
"""


class Harness:
    """On running servers; killing servers requires the stack that supervises them.

    ``recover_every``: the tables are brought up to date and compared after this many faults; findings
    are charged to the last of them.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        kinds: Sequence[str],
        seed: int,
        *,
        stack: Supervisor | None = None,
        recover_every: int = 1,
        verify: Verify = verify_topic,
        on_fault: Callable[[Fault], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._settings_file = folder / "tableflow.yaml"
        self._folder = folder
        self._stack = stack
        self._recover_every = recover_every
        self._verify = verify
        self._on_fault = on_fault
        self._chance = random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)
        self._report = Report(seed, list(kinds))

    def run(self) -> Report:
        """Inflict all faults. An error that stops the harness itself is reported as a problem."""
        started_at = time.monotonic()
        kinds = self._report.planned
        with Drivers(self._folder / "drivers", self._environment()) as drivers:
            drivers.warm_up(STANDBYS)
            try:
                for first in range(0, len(kinds), FAULTS_A_GENERATION):
                    self._generation(kinds[first : first + FAULTS_A_GENERATION], drivers)
            except TableflowError as error:
                self._report.problems.append(str(error))
        self._report.seconds = time.monotonic() - started_at
        return self._report

    def _generation(self, kinds: Sequence[str], drivers: Drivers) -> None:
        generation = Generation(self._settings, self._report.seed, self._verify)
        generation.write_settings(self._settings_file)
        arena = Arena(generation.names, drivers, self._stack, self._chance)
        try:
            generation.start()
            for number, kind in enumerate(kinds, start=1):
                recovers = number % self._recover_every == 0
                self._one_fault(kind, arena, generation, recovers)
            generation.finish()
            if any(kind in MAINTENANCE for kind in kinds):
                self._catch_up(arena, "--maintain")
            self._report.at_the_end += self._recover(arena, generation, SAMPLED_AT_THE_END)
            self._report.problems += generation.wrong_dead_letters()
        finally:
            generation.stop()
            self._report.records += generation.judge.records
            self._report.dead_letters += sum(generation.judge.dead_letters.values())

    def _one_fault(self, kind: str, arena: Arena, generation: Generation, recovers: bool) -> None:
        hung = 0
        for _ in range(ATTEMPTS_TO_HIT):
            generation.await_records()
            struck = strike(kind, arena)
            arena.drivers.warm_up(STANDBYS)
            hung += struck.hung
            self._note_errors(*struck.drivers)
            if self._stack is not None:
                await_servers(self._stack)
            if struck.hit or hung:
                break
        findings = self._recover(arena, generation) if recovers else NOTHING_WRONG
        fault = Fault(kind, struck.hit, findings, hung, struck.boundary)
        self._report.faults.append(fault)
        self._on_fault(fault)

    def _recover(self, arena: Arena, generation: Generation, sample: int = 0) -> Findings:
        """An undisturbed run must bring the tables up to where the logs are now."""
        ends = generation.judge.ends()
        self._catch_up(arena)
        return generation.judge.compare(ends, sample)

    def _catch_up(self, arena: Arena, *arguments: str) -> None:

        def failed_driver() -> Driver | None:
            driver = arena.start("--run-id", "clean", *arguments)
            arena.drivers.warm_up(STANDBYS)
            if not driver.has_ended():
                self._report.hung_outside_faults += 1
            begin, end = driver.event("working"), driver.event("done")
            if driver.exit_code == 0 and begin and end:
                if not arguments:
                    arena.learn(end["at"] - begin["at"])
                return None
            self._note_errors(driver)
            return driver

        failed_run = poll_until(
            lambda driver: driver is None,
            failed_driver,
            every=PAUSE_SECONDS,
            looks=ATTEMPTS_TO_CATCH_UP,
        )
        if failed_run is not None:
            raise TableflowError(
                "All servers answer, and yet no run could bring the tables up to date:"
                f" {failed_run.complaint()}",
                f"Read the drivers' logs in {self._folder / 'drivers'}",
            )

    def _note_errors(self, *drivers: Driver) -> None:
        for driver in drivers:
            if crash := driver.crash():
                self._report.crashes[crash] += 1
            elif complaint := driver.complaint():
                self._report.complaints[complaint] += 1

    def _environment(self) -> dict[str, str]:
        """Points a driver at this harness's topics, servers and Dagster instance."""
        home = self._folder / "dagster"
        home.mkdir(parents=True, exist_ok=True)
        (home / "dagster.yaml").write_text(_DAGSTER_YAML)
        return {
            "TABLEFLOW_CONFIG": str(self._settings_file),
            "TABLEFLOW_STATE": str(self._settings.state_dir),
            "DAGSTER_HOME": str(home),
        }
