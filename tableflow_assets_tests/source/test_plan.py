"""Plans are arithmetic on offsets: nothing left out, nothing twice."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Log, TopicIdentity
from tableflow_assets.source.plan import OffsetRange, Plan
from tableflow_assets.source.steps import steps
from tableflow_assets.table.ledger import Entry, Ledger

TOPIC = TopicIdentity("orders", "cluster", "id", (0, 1, 2))


def plan_of(*ranges: tuple[int, int]) -> Plan:
    return Plan(TOPIC, tuple(OffsetRange(p, *offsets) for p, offsets in enumerate(ranges)))


def ledger_at(**committed: int) -> Ledger:
    end = {int(name[1:]): offset for name, offset in committed.items()}
    entry = Entry("orders", "cluster", "id", origin={}, start={}, end=end)
    return Ledger(entry, committed_at_ms=0, head=1)


def steps_of(plan: Plan, max_records: int) -> list[Plan]:
    # So few records cannot reach the limit of bytes: no log is asked.
    nobody = Log("127.0.0.1:1")
    return list(steps(nobody, plan, Topic(name="orders", max_records=max_records)))


def offsets_of(plan: Plan) -> list[tuple[int, int]]:
    return [(r.partition, offset) for r in plan.ranges for offset in range(r.start, r.end)]


PLANS = [
    plan_of((0, 10)),
    plan_of((0, 1)),
    plan_of((7, 107), (0, 0), (1000, 1003)),
    plan_of((0, 1), (0, 1), (0, 1)),
    plan_of((0, 0), (5, 18), (3, 3)),
    plan_of((10**12, 10**12 + 17), (0, 5)),
]


@pytest.mark.parametrize("max_records", [1, 2, 3, 7, 10, 50, 1_000_000])
@pytest.mark.parametrize("plan", PLANS)
def test_steps_cover_the_plan_without_gap_or_overlap(plan: Plan, max_records: int) -> None:
    cut = steps_of(plan, max_records)
    covered = [place for step in cut for place in offsets_of(step)]
    assert sorted(covered) == offsets_of(plan)
    for earlier, later in pairwise(cut):
        assert [r.end for r in earlier.ranges] == [r.start for r in later.ranges]


@pytest.mark.parametrize("max_records", [1, 2, 3, 7, 10, 50])
@pytest.mark.parametrize("plan", PLANS)
def test_no_step_is_empty_or_larger_than_the_limit(plan: Plan, max_records: int) -> None:
    for step in steps_of(plan, max_records):
        assert 0 < step.size <= max_records


@pytest.mark.parametrize("plan", PLANS)
def test_every_step_names_all_partitions_so_that_its_ledger_entry_does(plan: Plan) -> None:
    for step in steps_of(plan, 2):
        assert [r.partition for r in step.ranges] == [r.partition for r in plan.ranges]


@pytest.mark.parametrize("plan", [plan_of(), plan_of((5, 5)), plan_of((0, 0), (9, 9))])
def test_a_plan_of_nothing_has_no_steps(plan: Plan) -> None:
    assert plan.size == 0
    assert steps_of(plan, 10) == []


def test_a_plan_within_the_limit_is_one_step() -> None:
    plan = plan_of((0, 6), (2, 6))
    assert steps_of(plan, 10) == [plan]


@pytest.mark.parametrize(
    ("ledger", "ranges"),
    [
        (ledger_at(p0=0, p1=4), [(0, 10), (4, 8)]),  # nothing happened meanwhile
        (ledger_at(p0=6, p1=4), [(6, 10), (4, 8)]),  # another run went a part of the way
        (ledger_at(p0=10, p1=8), [(10, 10), (8, 8)]),  # ... or all of it
        (ledger_at(p0=99, p1=5), [(99, 99), (5, 8)]),  # ... or further
        (ledger_at(p1=4), [(0, 10), (4, 8)]),  # a partition that the ledger does not know
        (ledger_at(p0=0, p1=4, p2=3), [(0, 10), (4, 8)]),  # one that the plan does not know
    ],
)
def test_planning_again_keeps_the_target_and_starts_where_the_table_is(
    ledger: Ledger, ranges: list[tuple[int, int]]
) -> None:
    assert plan_of((0, 10), (4, 8)).after(ledger) == plan_of(*ranges)
