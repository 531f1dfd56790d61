"""Each table has its own time after each that its schedule names: spread out, and always the same."""

from datetime import UTC, datetime, timedelta

import pytest

from tableflow_assets.operate.maintenance.slots import Slot, last_slots
from tableflow_assets.settings.managed_table import ManagedTable

MIDNIGHT = datetime(2026, 11, 19, tzinfo=UTC)  # a Thursday
HOUR = 3600.0
DAY = 24 * HOUR


def at(text: str) -> float:
    return datetime.fromisoformat(f"2026-11-{text}+00:00").timestamp()


def tables(count: int, cron: str | None) -> list[ManagedTable]:
    return [ManagedTable(name=f"topic-{number}", maintenance=cron) for number in range(count)]


@pytest.mark.parametrize(
    ("cron", "now", "begin", "spread"),
    [
        ("0 * * * *", "19 15:59:59.999999", "19 15:00", HOUR),
        ("@hourly", "19 15:59:59.999999", "19 15:00", HOUR),
        ("*/5 * * * *", "19 15:04:59.999999", "19 15:00", 300),
        ("* * * * *", "19 15:04:59.999999", "19 15:04", 60),
        ("0 3 * * *", "19 15:00", "19 03:00", HOUR),
        ("0 3 * * *", "19 02:00", "18 03:00", HOUR),  # not before the night
        ("30 4 * * 0", "19 15:00", "15 04:30", HOUR),
        ("0,20 3 * * *", "19 03:19:59.999999", "19 03:00", 1200),
        ("0,20 3 * * *", "19 05:00", "19 03:20", HOUR),
    ],
)
def test_tables_share_the_time_up_to_the_next_and_an_hour_at_most(
    cron: str, now: str, begin: str, spread: float
) -> None:
    slots = last_slots(tables(1000, cron), at(now)).values()
    assert {slot.spread for slot in slots} == {spread}
    after = [(slot.at - at(begin)) / spread for slot in slots]
    assert 0 <= min(after) < 0.01
    assert 0.99 < max(after) < 1
    tenths = [sum(tenth <= place * 10 < tenth + 1 for place in after) for tenth in range(10)]
    assert min(tenths) > 50  # of a thousand; a hundred, if they were all alike


@pytest.mark.parametrize(
    ("cron", "per_day"), [("0 * * * *", 24), ("0 3 * * *", 1), ("*/30 6-7 * * *", 4)]
)
def test_every_table_has_each_slot_once_at_the_same_distance(cron: str, per_day: int) -> None:
    some, begin = tables(5, cron), MIDNIGHT.timestamp()
    seen: dict[str, set[Slot]] = {table.name: set() for table in some}
    for tenth in range(2 * 24 * 6 + 1):
        for name, slot in last_slots(some, begin + tenth * 600).items():
            if slot.at > begin:
                seen[name].add(slot)
    assert {len(slots) for slots in seen.values()} == {2 * per_day}
    for slots in seen.values():
        first_day = {slot.at for slot in slots if slot.at <= begin + DAY}
        assert {slot.at for slot in slots} == first_day | {one + DAY for one in first_day}


def test_a_slot_is_only_told_once_it_has_come() -> None:
    one = tables(1, "0 * * * *")
    (slot,) = last_slots(one, at("19 15:59:59.9")).values()
    before, when = (last_slots(one, now)[one[0].name] for now in (slot.at - 0.001, slot.at))
    assert when == slot
    assert before.at == slot.at - HOUR


def test_a_table_that_nobody_looks_after_has_no_slot() -> None:
    assert last_slots(tables(3, None), at("19 15:00")) == {}


def test_a_thousand_tables_take_no_time() -> None:
    """Also with a schedule of its own for every table."""
    many = [
        ManagedTable(name=f"topic-{number}", maintenance=f"{number % 60} {number % 24} * * *")
        for number in range(1000)
    ]
    begin = datetime.now(UTC)
    assert len(last_slots(many, at("19 15:00"))) == 1000
    assert datetime.now(UTC) - begin < timedelta(seconds=2)
