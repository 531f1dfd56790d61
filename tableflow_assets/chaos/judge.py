"""After every fault: is each record there exactly once, and has the table reached the end of the log?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from tableflow_assets.chaos.topics import ChaosTopic
from tableflow_assets.operate.two_formats import differences
from tableflow_assets.settings.settings import Settings
from tableflow_assets.source.log import Offsets
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets.verify.verify import PartitionResult, verify

Verify = Callable[[Tableflow, str, int], Sequence[PartitionResult]]
CompareFormats = Callable[[Tableflow, str], int]


@dataclass(frozen=True)
class Findings:
    missing: int = 0
    duplicated: int = 0
    unexpected: int = 0
    mirror: int = 0  # differences between the two formats

    @property
    def ok(self) -> bool:
        return self == NOTHING_WRONG

    def __add__(self, other: Findings) -> Findings:
        return self._combined(other, lambda a, b: a + b)

    def beyond(self, known: Findings) -> Findings:
        """What was added on top of the known findings."""
        return self._combined(known, lambda now, before: max(0, now - before))

    def _combined(self, other: Findings, combine: Callable[[int, int], int]) -> Findings:
        names = [field.name for field in fields(self)]
        return Findings(
            **{name: combine(getattr(self, name), getattr(other, name)) for name in names}
        )


NOTHING_WRONG = Findings()


def verify_topic(tableflow: Tableflow, topic: str, sample: int) -> Sequence[PartitionResult]:
    spec, registry = tableflow.topic(topic), tableflow.registry
    return verify(tableflow.log, tableflow.catalog, spec, registry=registry, sample=sample)


def compare_formats(tableflow: Tableflow, topic: str) -> int:
    return len(differences(tableflow.catalog, tableflow.topic(topic)))


class Judge:
    """Compares whole tables with whole logs, and the two formats of each table with each other.

    Every difference is charged to the fault it appeared with.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[ChaosTopic],
        verify: Verify = verify_topic,
        compare_formats: CompareFormats = compare_formats,
    ) -> None:
        self._settings = settings
        self._names = [topic.name for topic in topics]
        self._verify, self._compare_formats = verify, compare_formats
        self._known = dict.fromkeys(self._names, NOTHING_WRONG)
        self.records = 0
        self.dead_letters = dict.fromkeys(self._names, 0)

    def ends(self) -> dict[str, Offsets]:
        """Where the logs end now: a table brought up to date after this must have reached them."""
        return self._tableflow().log.ends(self._names)

    def behind(self) -> list[str]:
        """The topics with records that their tables do not have yet."""
        tableflow = self._tableflow()
        behind = []
        for name, end in tableflow.log.ends(self._names).items():
            table = tableflow.catalog.find(tableflow.topic(name).table)
            is_new = table is None or table.current_snapshot() is None
            committed = {} if is_new or table is None else read_ledger(table).committed
            if any(offset > committed.get(partition, 0) for partition, offset in end.items()):
                behind.append(name)
        return behind

    def compare(self, ends: Mapping[str, Offsets], sample: int = 0) -> Findings:
        """What is wrong now but was not before; also compares the values of a sample of rows."""
        tableflow = self._tableflow()
        findings, records = NOTHING_WRONG, 0
        for name in self._names:
            results = self._verify(tableflow, name, sample)
            now = _total(results) + Findings(mirror=self._compare_formats(tableflow, name))
            findings += now.beyond(self._known[name])
            findings += Findings(missing=_not_reached(results, ends.get(name, {})))
            self._known[name] = now
            self.dead_letters[name] = sum(result.dead_letters for result in results)
            records += sum(result.records for result in results)
        self.records = records
        return findings

    def _tableflow(self) -> Tableflow:
        # A new one each time: old connections do not survive a server's restart.
        return Tableflow(self._settings)


def _total(results: Sequence[PartitionResult]) -> Findings:
    total = NOTHING_WRONG
    for result in results:
        # A row whose values differ from its record, or a ledger with a gap, is unexpected, too.
        unexpected = result.unexpected + result.differing + (not result.ledger_ok)
        total += Findings(result.missing, result.duplicated, unexpected)
    return total


def _not_reached(results: Sequence[PartitionResult], end: Offsets) -> int:
    """Offsets in the log that the table has not read: `verify` only looks at those it has."""
    committed = {result.partition: result.committed for result in results}
    return sum(max(0, offset - committed.get(partition, 0)) for partition, offset in end.items())
