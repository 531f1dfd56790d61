"""After every fault: is each record there, exactly once, and is the table where the log is?"""

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
        return self._combined(other, lambda ours, theirs: ours + theirs)

    def beyond(self, known: Findings) -> Findings:
        """What came on top of what was known."""
        return self._combined(known, lambda now, before: max(0, now - before))

    def _combined(self, other: Findings, how: Callable[[int, int], int]) -> Findings:
        names = [field.name for field in fields(self)]
        return Findings(**{name: how(getattr(self, name), getattr(other, name)) for name in names})


NOTHING_WRONG = Findings()


def verify_topic(tableflow: Tableflow, topic: str, sample: int) -> Sequence[PartitionResult]:
    known, registry = tableflow.topic(topic), tableflow.registry
    return verify(tableflow.log, tableflow.catalog, known, registry=registry, sample=sample)


def compare_formats(tableflow: Tableflow, topic: str) -> int:
    return len(differences(tableflow.catalog, tableflow.topic(topic)))


class Judge:
    """Compares whole tables with whole logs, and both formats of each with one another.

    Every difference is charged to the fault it came with.
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
        """Where the logs end now: a table that is brought up from here on must have all of it."""
        return self._tableflow().log.ends(self._names)

    def behind(self) -> list[str]:
        """The topics that have something which their table does not have."""
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
        """What is wrong now and was not before; of a sample of rows, also the values."""
        tableflow = self._tableflow()
        found, records = NOTHING_WRONG, 0
        for name in self._names:
            results = self._verify(tableflow, name, sample)
            now = _total(results) + Findings(mirror=self._compare_formats(tableflow, name))
            found += now.beyond(self._known[name])
            found += Findings(missing=_not_reached(results, ends.get(name, {})))
            self._known[name] = now
            self.dead_letters[name] = sum(result.dead_letters for result in results)
            records += sum(result.records for result in results)
        self.records = records
        return found

    def _tableflow(self) -> Tableflow:
        # A new one each time: what a restarted server has forgotten, no old connection knows.
        return Tableflow(self._settings)


def _total(results: Sequence[PartitionResult]) -> Findings:
    total = NOTHING_WRONG
    for result in results:
        # A row with other values than its record, or a ledger with a gap, is not as expected either.
        unexpected = result.unexpected + result.differing + (not result.ledger_ok)
        total += Findings(result.missing, result.duplicated, unexpected)
    return total


def _not_reached(results: Sequence[PartitionResult], end: Offsets) -> int:
    """Offsets that the log had and the table has not read: `verify` looks only at what it has."""
    committed = {result.partition: result.committed for result in results}
    return sum(max(0, offset - committed.get(partition, 0)) for partition, offset in end.items())
