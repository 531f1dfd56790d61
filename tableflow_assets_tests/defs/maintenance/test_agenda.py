"""Which tables a tick looks at, and whom the next run is for."""

import json

import pytest

from tableflow_assets.defs.maintenance.agenda import (
    COMPANY,
    LONGEST_PAUSE_SECONDS,
    MOST_TABLES,
    PATIENCE_SECONDS,
    PAUSE_SECONDS,
    Agenda,
)
from tableflow_assets.operate.maintenance.slots import Slot

NOW = 1_800_000_000.0
HOUR = 3600.0
QUARTER = HOUR * COMPANY


def agenda(at: float = NOW - HOUR) -> Agenda:
    return Agenda(at=at)


def in_need(**urgency: int) -> Agenda:
    """Tables that have been looked at just now, and whose time had just come."""
    result = agenda()
    result.note_due(dict.fromkeys(urgency, Slot(NOW, HOUR)), NOW)
    for name, number in urgency.items():
        result.looked(name, number)
    return result


def test_a_table_is_due_once_when_its_slot_has_come() -> None:
    slots = {name: Slot(NOW + after, HOUR) for name, after in [("b", -1), ("a", -2), ("c", 5)]}
    plan = agenda(at=NOW - 10)
    plan.note_due(slots, NOW)
    assert list(plan.due) == ["a", "b"]
    plan.looked("a", 0)
    plan.note_due(slots, NOW + 1)
    assert list(plan.due) == ["b"]
    plan.note_due(slots, NOW + 5)
    assert list(plan.due) == ["b", "c"]


def test_what_came_while_nobody_looked_is_made_up_for_once() -> None:
    plan = agenda(at=NOW - 30 * HOUR)
    plan.note_due({"hourly": Slot(NOW - 60, HOUR), "daily": Slot(NOW - 9 * HOUR, HOUR)}, NOW)
    assert list(plan.due) == ["daily", "hourly"]


@pytest.mark.parametrize("cursor", [None, "", "{}", "nonsense", '{"at": "yesterday"}', "[1]"])
def test_without_its_cursor_it_begins_now_and_works_at_no_other_time(cursor: str | None) -> None:
    plan = Agenda.from_cursor(cursor)
    plan.note_due({"nightly": Slot(NOW - 9 * HOUR, HOUR)}, NOW)
    assert not plan.due
    plan.note_due({"nightly": Slot(NOW + 1, HOUR)}, NOW + 1)
    assert list(plan.due) == ["nightly"]


def test_a_clock_that_goes_back_holds_nothing_up() -> None:
    plan = agenda(at=NOW + HOUR)
    plan.note_due({}, NOW)
    plan.note_due({"a": Slot(NOW + 1, HOUR)}, NOW + 1)
    assert list(plan.due) == ["a"]


def test_a_cursor_comes_back_as_it_was() -> None:
    plan = in_need(a=1, b=2)
    plan.note_due({"c": Slot(NOW, HOUR)}, NOW)
    plan.send(["a"], NOW)
    assert Agenda.from_cursor(plan.to_cursor()) == plan
    json.loads(plan.to_cursor())


def test_those_in_most_need_go_first_and_need_grows_with_time() -> None:
    plan = in_need(little=2, much=50, some=10)
    assert plan.ready(NOW + QUARTER) == ["much", "some", "little"]
    late = Slot(NOW + 5 * PATIENCE_SECONDS, HOUR)
    plan.note_due({"fresh": late}, late.at)
    plan.looked("fresh", 11)
    assert plan.ready(late.at) == ["much", "some", "little", "fresh"]


def test_a_table_waits_for_others_but_not_for_long() -> None:
    plan = in_need(a=1)
    plan.note_due({"b": Slot(NOW + 60, 300)}, NOW + 60)
    plan.looked("b", 1)
    assert plan.ready(NOW + 60) == []
    assert set(plan.ready(NOW + 60 + 300 * COMPANY)) == {"a", "b"}


def test_a_table_that_needs_nothing_any_more_is_left_out() -> None:
    plan = in_need(a=5)
    plan.note_due({"a": Slot(NOW + HOUR, HOUR)}, NOW + HOUR)
    plan.looked("a", 0)
    assert plan.ready(NOW + 2 * HOUR) == []


def test_a_run_has_so_many_tables_and_the_next_has_the_rest() -> None:
    names = {f"topic-{number}": number + 1 for number in range(MOST_TABLES + 3)}
    plan = in_need(**names)
    first = plan.ready(NOW + PAUSE_SECONDS)  # so many wait for nobody
    assert len(first) == MOST_TABLES
    assert first[0] == f"topic-{MOST_TABLES + 2}"
    plan.send(first, NOW + PAUSE_SECONDS)
    plan.settle([])
    assert plan.ready(NOW + QUARTER) == ["topic-2", "topic-1", "topic-0"]


def test_what_a_run_has_left_comes_with_the_next_at_once() -> None:
    plan = in_need(a=3, b=2, c=1)
    plan.send(["a", "b", "c"], NOW)
    plan.settle(["c", "b"])
    assert plan.ready(NOW + PAUSE_SECONDS) == ["b", "c"]


def test_a_run_that_began_with_no_table_is_repeated_ever_more_seldom() -> None:
    plan = in_need(a=3, b=2)
    pauses, now = [], NOW + QUARTER
    for _ in range(6):
        names = plan.ready(now)
        plan.send(names, now)
        plan.settle(None)
        begin = now
        while not plan.ready(now):
            now += PAUSE_SECONDS
        pauses.append(now - begin)
    assert pauses == [120, 240, 480, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, 900]
    plan.send(["a", "b"], now)
    plan.settle(["b"])
    assert plan.ready(now + PAUSE_SECONDS) == ["b"]


def test_tables_that_are_gone_are_forgotten() -> None:
    plan = in_need(a=1, b=1, c=1)
    plan.note_due({"d": Slot(NOW, HOUR), "e": Slot(NOW, HOUR)}, NOW)
    plan.due = {name: Slot(NOW, HOUR) for name in ("d", "e")}
    plan.send(["c"], NOW)
    plan.keep_only(["b", "e"])
    assert (set(plan.due), set(plan.needy), set(plan.sent)) == ({"e"}, {"b"}, set())
