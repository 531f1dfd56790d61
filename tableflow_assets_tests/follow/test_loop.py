"""Whose turn it is, and when the loop ends: with scripted topics."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tableflow_assets.base.errors import ServerUnreachable, Suspended, TableflowError
from tableflow_assets.follow import follow as loop
from tableflow_assets.follow import pace as paces
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.turn import Turn
from tableflow_assets.settings.settings import Topic
from tableflow_assets_tests.follow.scripted import Script

QUICK = Pace(workers=1, look_seconds=0.02, rest=0, idle_seconds=0.3)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paces, "FIRST_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(loop, "TAKEN_SECONDS", 0.05)
    monkeypatch.setattr(loop, "GUESS_SECONDS", 0.1)


def refuse() -> None:
    raise TableflowError("this topic cannot be read")


def suspended() -> None:
    raise Suspended("5 offsets expired")


def crash() -> None:
    raise KeyError("what nobody foresaw")


def test_everything_is_committed_and_then_it_ends(tmp_path: Path) -> None:
    script = Script(tmp_path, {"a": 5, "b": 0, "c": 7})
    why = follow(script.tableflow, pace=QUICK)
    assert script.committed == {"a": 5, "c": 7}
    assert why == "nothing came for 0 s"


def test_what_comes_later_is_committed_too_and_an_idle_topic_costs_no_turn(tmp_path: Path) -> None:
    script = Script(tmp_path, {"a": 1, "idle": 3})

    def more(turn: Turn) -> None:
        if turn.topic.name == "a" and script.ends["a"] < 4:
            script.ends["a"] += 1

    follow(script.tableflow, pace=QUICK, on_turn=more)
    assert script.committed["a"] == 4
    assert script.turns.count("idle") == 1  # to find out how far it is


def test_topics_known_to_be_behind_come_before_those_that_may_be_up_to_date(tmp_path: Path) -> None:
    script = Script(tmp_path, dict.fromkeys("abcdef", 1))
    follow(script.tableflow, first=["e", "f"], pace=QUICK)
    assert set(script.turns[:2]) == {"e", "f"}


@pytest.mark.parametrize("fault", [refuse, crash])
def test_a_topic_that_fails_is_tried_again_later_and_the_others_do_not_notice(
    tmp_path: Path, fault: object
) -> None:
    script = Script(tmp_path, {"broken": 9, "fine": 1}, faults={"broken": fault})  # type: ignore[dict-item]
    errors: list[str] = []

    def more(turn: Turn) -> None:
        if turn.error:
            errors.append(turn.topic.name)
        elif script.ends["fine"] < 20:
            script.ends["fine"] += 1

    follow(script.tableflow, pace=QUICK, on_turn=more)
    assert script.committed == {"fine": 20}
    assert set(errors) == {"broken"}
    assert 2 <= script.turns.count("broken") < script.turns.count("fine")


def test_a_suspended_topic_is_no_failure_and_goes_on_soon_after_it_was_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "SUSPENDED_SECONDS", 0.05)
    monkeypatch.setattr(paces, "FIRST_WAIT_SECONDS", 60.0)
    script = Script(tmp_path, {"a": 1}, faults={"a": suspended})

    def resume(_: Turn) -> None:
        if len(script.turns) == 5:
            del script.faults["a"]

    pace = Pace(**{**vars(QUICK), "patience_seconds": 0.0, "idle_seconds": 2})
    follow(script.tableflow, pace=pace, on_turn=resume)
    assert script.committed == {"a": 1}


def test_a_first_load_of_hours_shares_with_the_others(tmp_path: Path) -> None:
    script = Script(tmp_path, {"load": 40, "live": 1}, step=1)

    def more(turn: Turn) -> None:
        if turn.topic.name == "live" and script.ends["live"] < 4:
            script.ends["live"] += 1

    follow(script.tableflow, pace=Pace(**{**vars(QUICK), "turn_seconds": 0.03}), on_turn=more)
    assert script.committed == {"load": 40, "live": 4}
    last_live = len(script.turns) - 1 - script.turns[::-1].index("live")
    assert "load" in script.turns[last_live:], "live waited until the load was done"


def test_a_table_that_another_run_works_on_is_left_to_it(tmp_path: Path) -> None:
    script = Script(tmp_path, {"a": 1})
    refusals = iter([False, False])

    @contextmanager
    def permit(_: Topic) -> Iterator[bool]:
        yield next(refusals, True)

    turns: list[Turn] = []
    follow(script.tableflow, pace=QUICK, permit=permit, on_turn=turns.append)
    assert [turn.is_taken for turn in turns] == [True, True, False]
    assert script.committed == {"a": 1}


def test_a_turn_that_hangs_takes_no_worker_from_the_others(tmp_path: Path) -> None:
    end = threading.Event()

    def hang() -> None:
        end.wait(10)

    script = Script(tmp_path, {"hangs": 1, "fine": 0}, faults={"hangs": hang})

    def is_over() -> bool:
        script.ends["fine"] = 1
        return "fine" in script.committed

    pace = Pace(**{**vars(QUICK), "hung_seconds": 0.1})
    began = time.monotonic()
    follow(script.tableflow, first=["hangs"], pace=pace, is_over=is_over)
    end.set()
    assert script.committed["fine"] == 1
    assert time.monotonic() - began < 5


def test_if_nothing_succeeds_it_ends_with_the_reason(tmp_path: Path) -> None:
    script = Script(tmp_path, {"a": 1, "b": 1}, faults={"a": refuse, "b": refuse})
    pace = Pace(**{**vars(QUICK), "patience_seconds": 0.2, "idle_seconds": 60})
    with pytest.raises(TableflowError, match="this topic cannot be read"):
        follow(script.tableflow, pace=pace)


def test_a_lost_spark_session_ends_it_at_once(tmp_path: Path) -> None:
    """Only another process gets a new session."""

    def no_session() -> None:
        raise ServerUnreachable("Spark Connect", "127.0.0.1:1", "INVALID_HANDLE")

    script = Script(tmp_path, {"a": 1}, faults={"a": no_session})
    with pytest.raises(ServerUnreachable):
        follow(script.tableflow, pace=QUICK)
    assert len(script.turns) == 1


def test_asked_to_end_it_lets_the_turn_under_way_finish(tmp_path: Path) -> None:
    script = Script(tmp_path, {"a": 30}, step=1)
    why = follow(script.tableflow, pace=QUICK, is_over=lambda: bool(script.committed))
    assert why == "it was asked to end"
    assert script.committed == {"a": 30}


def test_a_worker_rests_after_a_turn_in_which_it_read_everything(tmp_path: Path) -> None:
    """So that records gather into fewer commits."""
    script = Script(tmp_path, {"a": 1})

    def more(turn: Turn) -> None:
        script.ends["a"] = min(script.ends["a"] + 1, 4)

    began = time.monotonic()
    follow(script.tableflow, pace=Pace(**{**vars(QUICK), "rest": 20}), on_turn=more)
    turns = script.turns.count("a")
    assert script.committed == {"a": 4}
    assert time.monotonic() - began > (turns - 1) * 0.01 * 20
