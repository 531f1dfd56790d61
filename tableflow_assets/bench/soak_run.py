"""Many small commits to one table with regular maintenance: does it stay fast to query?"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table

from tableflow_assets.bench.bulk_topic import BulkTopic
from tableflow_assets.bench.soak_queries import Queries, listed_data_files
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.maintenance.health import SMALL_FILES, SMALL_FILES_IN_THE_NEWEST
from tableflow_assets.operate.maintenance.maintain import maintain
from tableflow_assets.operate.two_formats import differences
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.delta.mirror import catch_up
from tableflow_assets.table.formats import DATA_PATH, shared_folder_property
from tableflow_assets.table.snapshots import total_now
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import verify

PARTITIONS = 2
DAYS = 5  # over which the records are spread in order, as if the soak took that long
LATE_EVERY = 10  # commits: some records of such a commit belong to an earlier day
MEASURE_EVERY = 10  # commits
# A table keeps old snapshots for days. The soak only lasts minutes and needs to see them expire.
KEEP_SNAPSHOTS = timedelta(seconds=30)
REPEATS_AT_THE_END = 9
WANTED_RATIO = 1.5


@dataclass(frozen=True)
class Point:
    """After ``commits`` commits. ``listed``: the data files in the bucket, older snapshots included."""

    commits: int
    files: int
    listed: int
    snapshots: int
    iceberg_ms: float
    delta_ms: float


@dataclass
class Report:
    commits: int
    records: int
    files_bound: int
    points: list[Point] = field(default_factory=list)
    maintained: list[int] = field(default_factory=list)  # after which commits
    fresh_ms: dict[str, float] = field(default_factory=dict)
    end_ms: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def ratios(self) -> dict[str, float]:
        """The query at the end compared with the same query over a freshly written table."""
        return {name: round(self.end_ms[name] / fresh, 2) for name, fresh in self.fresh_ms.items()}

    @property
    def ok(self) -> bool:
        return not self.problems and bool(self.points)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "most_files": max((point.files for point in self.points), default=0),
            "most_listed": max((point.listed for point in self.points), default=0),
            "ratios": self.ratios,
            "wanted_ratio": WANTED_RATIO,
            "ok": self.ok,
        }


class Soak:
    """On running servers, with a topic of its own."""

    def __init__(self, tableflow: Tableflow, commits: int, records: int, maintain_every: int):
        self._tableflow, self._catalog = tableflow, tableflow.catalog
        self._records, self._maintain_every = records, maintain_every
        self._bulk = BulkTopic(tableflow.settings, "soak", PARTITIONS)
        self._now = datetime.now(UTC)
        self._begin = (self._now - timedelta(days=DAYS)).replace(hour=0, minute=0)
        topic = Topic(name=self._bulk.name, first_window=self._begin.date())
        self._pipeline = tableflow.pipeline(topic)
        self._queries = Queries(self._catalog)
        self._chance = random.Random(1)  # noqa: S311  (no secret)
        self._sent = 0
        self.report = Report(commits, commits * records, files_bound(maintain_every))

    def run(self, on_commit: Callable[[int], None] = lambda _: None) -> Report:
        for number in range(1, self.report.commits + 1):
            self._send(number)
            self._pipeline.catch_up("soak")
            if number % self._maintain_every == 0:
                self._measure(number)  # at its worst
                self._maintain(number)
            if number % MEASURE_EVERY == 0:
                self._measure(number)
            on_commit(number)
        self._compare_with_a_fresh_table()
        self._judge()
        return self.report

    def _send(self, commit: int) -> None:
        numbers = range(self._sent, self._sent + self._records)
        self._sent += self._records
        moment = self._begin + (self._now - self._begin) * (commit / self.report.commits)
        late = self._records // 10 if commit % LATE_EVERY == 0 else 0
        earlier = self._begin + (moment - self._begin) * self._chance.random()
        self._bulk.send(numbers[:late], timestamp_ms=_milliseconds(earlier))
        self._bulk.send(numbers[late:], timestamp_ms=_milliseconds(moment))

    def _maintain(self, commit: int) -> None:
        result = maintain(self._pipeline)
        self.report.problems += [
            f"After {commit} commits, {step.kind}: {step.error}" for step in result.failed
        ]
        expire(self._pipeline, older_than=KEEP_SNAPSHOTS, force=True)
        self.report.maintained.append(commit)

    def _measure(self, commit: int) -> None:
        table = self._table()
        (milliseconds,) = self._queries.milliseconds(table)
        point = Point(
            commits=commit,
            files=total_now(table, "total-data-files"),
            listed=listed_data_files(self._catalog, table),
            snapshots=len(table.snapshots()),
            iceberg_ms=milliseconds["iceberg"],
            delta_ms=milliseconds["delta"],
        )
        self.report.points.append(point)
        self._expect_one_answer(f"after {commit} commits")
        if point.files > self.report.files_bound:
            self.report.problems.append(
                f"After {commit} commits the table has {point.files} files;"
                f" it should have {self.report.files_bound} at most."
            )

    def _compare_with_a_fresh_table(self) -> None:
        table = self._table()
        fresh = self._written_anew(table)
        self.report.end_ms, self.report.fresh_ms = self._queries.milliseconds(
            table, fresh, repeats=REPEATS_AT_THE_END
        )
        self._expect_one_answer("of the table and of the fresh one")
        for name, ratio in self.report.ratios.items():
            if ratio > WANTED_RATIO:
                self.report.problems.append(
                    f"The query over {name} takes {ratio} times as long as over a table that was"
                    f" written anew; wanted: {WANTED_RATIO} at most."
                )

    def _judge(self) -> None:
        topic = self._pipeline.topic
        for result in verify(self._tableflow.log, self._catalog, topic):
            if not result.ok:
                self.report.problems.append(f"verify: {result}")
        for finding in differences(self._tableflow.catalog, topic):
            self.report.problems.append(f"mirror: {finding.problem}")

    def _expect_one_answer(self, when: str) -> None:
        if not self._queries.agree:
            self.report.problems.append(f"Iceberg and Delta gave different answers {when}.")

    def _written_anew(self, table: Table) -> Table:
        """All rows in one commit, with the same engine and layout; mirrored like any other table."""
        name = f"{table.name()[-1]}_fresh"
        properties = {key: value for key, value in table.properties.items() if key != DATA_PATH}
        fresh = self._catalog.ask(
            lambda: self._catalog.iceberg.create_table(
                self._catalog.identifier(name),
                table.schema(),
                partition_spec=table.spec(),
                properties=properties,
            )
        )
        with fresh.transaction() as transaction:
            transaction.set_properties(shared_folder_property(fresh))
        source = self._pipeline.spark.table(self._pipeline.spark_table)
        target = self._pipeline.spark_table.replace(table.name()[-1], name)
        source.writeTo(target).append()
        catch_up(self._catalog, self._catalog.ask(fresh.refresh))
        return fresh

    def _table(self) -> Table:
        table = self._catalog.find(self._pipeline.topic.table)
        if table is None:
            raise AssertionError("a commit leaves a table")
        return table


def files_bound(maintain_every: int) -> int:
    """For any number of commits: the files until the next maintenance, plus those it leaves alone.

    A commit writes one file per day that it has records for: one, or two with late records.
    """
    newly_written = maintain_every + maintain_every // LATE_EVERY + 1
    left_alone = (DAYS + 1) * (SMALL_FILES + 1) + SMALL_FILES_IN_THE_NEWEST
    return newly_written + left_alone


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
