"""When a topic's records are committed that may gather: with scripted topics."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tableflow_assets.follow.due import gathering_seconds
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.turn import Turn
from tableflow_assets.settings.blocks import Commit
from tableflow_assets.settings.settings import Topic, TopicOptions
from tableflow_assets_tests.follow.scripted import Script

QUICK = Pace(workers=1, look_seconds=0.02, rest=0, idle_seconds=0.3)
SLOW = TopicOptions(commit=Commit(every=timedelta(minutes=15)))


def every(seconds: float, **options: int) -> TopicOptions:
    return TopicOptions(commit=Commit(every=timedelta(seconds=seconds)), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unread", "record_bytes", "seconds"),
    [
        (1, 100.0, 900),
        (999_999, 0.0, 900),  # records of an unknown size
        (1_000_000, 0.0, 0),  # as many as one commit takes
        (2 * 2**20 - 1, 125.0, 0),
        (2 * 2**20 // 2, 250.0, 0),
        (2**20 - 1, 249.0, 0),
        (900_000, 250.0, 900),
    ],
)
def test_records_gather_until_there_are_enough_of_them(
    unread: int, record_bytes: float, seconds: float
) -> None:
    topic = Topic(name="t", **dict(SLOW))
    assert gathering_seconds(topic, unread, record_bytes) == seconds


def test_without_the_setting_nothing_gathers() -> None:
    assert gathering_seconds(Topic(name="t"), 1, 1.0) == 0


def test_a_slow_topic_gathers_and_keeps_no_process_alive(tmp_path: Path) -> None:
    script = Script(tmp_path, {"slow": 5, "fast": 1}, options={"slow": SLOW}, ages={"slow": 60})
    turns: list[Turn] = []

    def more(turn: Turn) -> None:
        turns.append(turn)
        script.ends["slow"] += 1
        script.ends["fast"] = min(script.ends["fast"] + 1, 5)

    began = time.monotonic()
    why = follow(script.tableflow, pace=QUICK, on_turn=more)
    assert why == "nothing came for 0 s"
    assert time.monotonic() - began < 5
    assert script.committed == {"fast": 5}
    (visit,) = [turn for turn in turns if turn.name == "slow"]  # to find out since when it waits
    assert visit.gathers_for == pytest.approx(60, abs=5)


def test_what_has_gathered_before_the_process_began_counts(tmp_path: Path) -> None:
    options = {"due": SLOW, "almost": every(60.5)}
    script = Script(
        tmp_path, {"due": 3, "almost": 2}, options=options, ages={"due": 900, "almost": 60}
    )
    follow(
        script.tableflow,
        pace=replace(QUICK, idle_seconds=5),
        is_over=lambda: len(script.committed) == 2,
    )
    assert script.committed == {"due": 3, "almost": 2}
    assert script.turns.count("almost") == 2
    assert script.turns.count("due") == 1


def test_a_topic_named_as_due_is_not_asked_again(tmp_path: Path) -> None:
    script = Script(tmp_path, {"slow": 3}, options={"slow": SLOW}, ages={"slow": 0})
    follow(script.tableflow, first=["slow"], pace=QUICK)
    assert script.committed == {"slow": 3}


def test_records_that_come_together_are_one_commit(tmp_path: Path) -> None:
    """And a process that is soon needed again stays for it."""
    options = {"gathers": every(0.6)}
    script = Script(tmp_path, {"gathers": 1}, options=options, ages={"gathers": 900})
    commits: list[tuple[float, int]] = []

    def note(turn: Turn) -> None:
        if turn.has_committed:
            commits.append((time.monotonic(), turn.committed.rows))

    def is_over() -> bool:
        script.ends["gathers"] += 1 if commits else 0
        return len(commits) == 3

    pace = replace(QUICK, look_seconds=0.1, idle_seconds=1)
    follow(script.tableflow, pace=pace, on_turn=note, is_over=is_over)
    (first, _), (second, rows), (third, more_rows) = commits
    assert second - first >= 0.6
    assert third - second >= 0.6
    assert min(rows, more_rows) > 3


def test_enough_records_are_committed_before_their_time(tmp_path: Path) -> None:
    options = {"slow": every(900, max_records=10)}
    script = Script(tmp_path, {"slow": 9}, options=options, ages={"slow": 1})

    def more(turn: Turn) -> None:
        script.ends["slow"] = 10

    follow(script.tableflow, pace=QUICK, on_turn=more)
    assert script.committed == {"slow": 10}


def test_a_slow_topic_comes_after_what_has_been_due_for_longer(tmp_path: Path) -> None:
    """Though its oldest record has waited longer."""
    script = Script(tmp_path, {"slow": 1, "fast": 0, "load": 0}, options={"slow": every(0.5)})
    script.ages["slow"] = 0

    def take_long() -> None:
        time.sleep(0.2)
        script.ends["fast"] = 1
        time.sleep(0.8)

    def more(turn: Turn) -> None:
        script.ends["load"] = 1

    script.faults["load"] = take_long
    follow(script.tableflow, first=["fast", "load"], pace=QUICK, on_turn=more)
    assert script.turns == ["slow", "load", "fast", "slow"]
