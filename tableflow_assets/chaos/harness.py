"""The harness: produce without pause, break a run, see that it heals, compare everything; again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import yaml

from tableflow_assets import connections
from tableflow_assets.chaos.driver_process import Driver, Drivers
from tableflow_assets.chaos.faults import Arena, strike
from tableflow_assets.chaos.feed import FEEDS, Feed
from tableflow_assets.chaos.judge import Findings, Judge, Verify, verify_topic
from tableflow_assets.chaos.records import Messages, create_topics
from tableflow_assets.chaos.report import Fault, Report
from tableflow_assets.chaos.servers import await_servers
from tableflow_assets.chaos.topics import ChaosTopic, settings_for, topics_of_a_run
from tableflow_assets.errors import TableflowError
from tableflow_assets.settings import Settings
from tableflow_assets.stack.supervisor import Supervisor

ATTEMPTS_TO_HIT = 6
ATTEMPTS_TO_CATCH_UP = 4
PAUSE_SECONDS = 2.0
RECORDS_WITHIN_SECONDS = 120.0
POLL_SECONDS = 0.1
STANDBYS = 1
SAMPLED_AT_THE_END = 200  # rows a table, compared value by value

_DAGSTER_YAML = """\
telemetry: {enabled: false}
concurrency: {pools: {default_limit: 1, granularity: op}}
"""


class Harness:
    """On running servers; faults of servers need the stack that watches them."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        kinds: Sequence[str],
        seed: int,
        *,
        stack: Supervisor | None = None,
        topics: tuple[ChaosTopic, ...] | None = None,
        verify: Verify = verify_topic,
        on_fault: Callable[[Fault], None] = lambda _: None,
    ) -> None:
        self._topics = topics or topics_of_a_run()
        self._settings = settings_for(self._topics, settings)
        self._folder = folder
        self._stack = stack
        self._seed = seed
        self._on_fault = on_fault
        self._judge = Judge(self._settings, self._topics, verify)
        self._feeds: list[Feed] = []
        self._report = Report(seed, list(kinds))

    def run(self) -> Report:
        """Do all faults. What stops the harness itself stands in the report as a problem."""
        started = time.monotonic()
        with ExitStack() as cleanup:
            drivers = cleanup.enter_context(Drivers(self._folder / "drivers", self._environment()))
            cleanup.callback(self._stop_feeds)
            arena = Arena(
                [topic.name for topic in self._topics],
                drivers,
                self._stack,
                random.Random(self._seed),  # noqa: S311
            )
            try:
                drivers.warm_up(STANDBYS)
                self._start_feeds()
                for kind in self._report.planned:
                    self._one_fault(kind, arena)
                self._end(arena)
            except TableflowError as error:
                self._report.problems.append(str(error))
        self._report.records = self._judge.records
        self._report.dead_letters = sum(self._judge.dead_letters.values())
        self._report.seconds = time.monotonic() - started
        return self._report

    # -- faults -------------------------------------------------------------------------------

    def _one_fault(self, kind: str, arena: Arena) -> None:
        hung = 0
        for _ in range(ATTEMPTS_TO_HIT):
            self._await_records()
            struck = strike(kind, arena)
            arena.drivers.warm_up(STANDBYS)
            hung += struck.hung
            self._note_errors(*struck.drivers)
            self._await_servers()
            if struck.hit or hung:
                break
        fault = Fault(kind, struck.hit, self._recover(arena), hung, struck.boundary)
        self._report.faults.append(fault)
        self._on_fault(fault)

    def _recover(self, arena: Arena, sample: int = 0) -> Findings:
        """A run that nothing happens to must bring the tables up to where the logs are now."""
        ends = self._judge.ends()
        self._catch_up(arena)
        return self._judge.compare(ends, sample)

    def _catch_up(self, arena: Arena) -> None:
        complaint: str | None = None
        for _ in range(ATTEMPTS_TO_CATCH_UP):
            driver = arena.start("--run-id", "clean")
            arena.drivers.warm_up(STANDBYS)
            if not driver.has_ended():
                self._report.hung_outside_faults += 1
            begin, end = driver.event("working"), driver.event("done")
            if driver.exit_code == 0 and begin and end:
                arena.learn(end["at"] - begin["at"])
                return
            self._note_errors(driver)
            complaint = driver.complaint()
            time.sleep(PAUSE_SECONDS)
        raise TableflowError(
            f"All servers answer, and yet no run could bring the tables up to date: {complaint}",
            f"Read the drivers' logs in {self._folder / 'drivers'}",
        )

    def _end(self, arena: Arena) -> None:
        self._stop_feeds()
        for feed in self._feeds:
            feed.wait()
        self._report.at_the_end = self._recover(arena, SAMPLED_AT_THE_END)
        for feed in self._feeds:
            kept = self._judge.dead_letters[feed.topic.name]
            if feed.topic.bad_records and not feed.bad_acknowledged <= kept <= feed.bad_sent:
                self._report.problems.append(
                    f"{feed.topic.name} got {feed.bad_acknowledged} to {feed.bad_sent} records that"
                    f" cannot be decoded; {kept} are dead letters."
                )

    def _note_errors(self, *drivers: Driver) -> None:
        for driver in drivers:
            if crash := driver.crash():
                self._report.crashes[crash] += 1
            elif complaint := driver.complaint():
                self._report.complaints[complaint] += 1

    def _await_servers(self) -> None:
        if self._stack is not None:
            await_servers(self._stack)

    # -- records ------------------------------------------------------------------------------

    def _start_feeds(self) -> None:
        kafka = connections.kafka_address(self._settings)
        for topic, schema_id in create_topics(self._topics, self._settings).items():
            chosen = next(known for known in self._topics if known.name == topic)
            messages = Messages(chosen, schema_id, self._seed)
            self._feeds.append(FEEDS[chosen.producer](chosen, kafka, messages, self._seed))
            self._feeds[-1].start()

    def _stop_feeds(self) -> None:
        for feed in self._feeds:
            feed.stop()

    def _await_records(self) -> None:
        """A run with nothing to commit reaches no boundary, and cannot be broken."""
        deadline = time.monotonic() + RECORDS_WITHIN_SECONDS
        with_bad_ones = [feed for feed in self._feeds if feed.topic.bad_records]
        for feed in with_bad_ones:
            feed.send_a_bad_record()
        while not (
            all(feed.has_bad_arrived for feed in with_bad_ones)
            and len(self._judge.behind()) == len(self._topics)
        ):
            for feed in self._feeds:
                feed.check()
            if time.monotonic() > deadline:
                reasons = "; ".join(feed.last_error for feed in self._feeds if feed.last_error)
                raise TableflowError(
                    f"No new records within {RECORDS_WITHIN_SECONDS:.0f} s, from producers that"
                    f" never pause. {reasons}",
                    "Is Kafka there? Read its log in the state folder.",
                )
            time.sleep(POLL_SECONDS)

    # -- the drivers' settings ----------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        """What leads a driver to this harness's topics, servers and Dagster instance."""
        home = self._folder / "dagster"
        home.mkdir(parents=True, exist_ok=True)
        (home / "dagster.yaml").write_text(_DAGSTER_YAML)
        topics = {
            name: options.model_dump(exclude_unset=True)
            for name, options in self._settings.topics.items()
        }
        file = self._folder / "tableflow.yaml"
        file.write_text(yaml.safe_dump({"topics": topics}))
        return {
            "TABLEFLOW_CONFIG": str(file),
            "TABLEFLOW_STATE": str(self._settings.state_dir),
            "DAGSTER_HOME": str(home),
        }
