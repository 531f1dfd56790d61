"""The policies of trying again: how often, after which pauses, and which error is the last word."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tenacity.nap

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.base.retry import poll_until, retry_after_pauses, retry_on_conflict


class Away(Exception):
    """As said by a server."""


class GoneForGood(Away):
    """So, too; and it stays so."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was slept, in seconds, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(tenacity.nap.time, "sleep", slept.append)
    return slept


def failing(*errors: Exception) -> Callable[[], str]:
    """Work that fails with each of these in turn, and is done then."""
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_it_is_tried_again_after_each_pause(pauses: list[float]) -> None:
    order: list[str] = []
    work = failing(Away("1"), Away("2"))
    answer = retry_after_pauses(
        work,
        (0.1, 0.2, 0.4),
        Away,
        on_retry=lambda error: order.append(f"{error}, slept {len(pauses)}"),
        before_retry=lambda: order.append(f"slept {len(pauses)}"),
    )
    assert answer == "done"
    assert pauses == [0.1, 0.2]
    assert order == ["1, slept 0", "slept 1", "2, slept 1", "slept 2"]


def test_the_last_error_counts(pauses: list[float]) -> None:
    errors = [Away(str(number)) for number in range(3)]
    with pytest.raises(Away) as caught:
        retry_after_pauses(failing(*errors), (0.1, 0.2), Away)
    assert caught.value is errors[-1]
    assert pauses == [0.1, 0.2], "and no pause after the last try"


def test_without_pauses_it_is_tried_once(pauses: list[float]) -> None:
    with pytest.raises(Away, match="first"):
        retry_after_pauses(failing(Away("first"), Away("second")), (), Away)
    assert pauses == []


@pytest.mark.parametrize("error", [KeyError("another"), KeyboardInterrupt()])
def test_another_error_is_raised_at_once(pauses: list[float], error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        retry_after_pauses(failing(Away(), error), (0.1, 0.2, 0.4), Away)
    assert caught.value is error
    assert pauses == [0.1]


def test_a_conflict_is_retried_at_once(pauses: list[float]) -> None:
    told: list[str] = []
    conflicts = [CommitConflict(f"{number}", "Run again.") for number in range(3)]
    answer = retry_on_conflict(
        failing(*conflicts), 4, on_retry=lambda conflict: told.append(conflict.problem)
    )
    assert answer == "done"
    assert told == ["0", "1", "2"]
    assert not any(pauses)
    with pytest.raises(CommitConflict) as caught:
        retry_on_conflict(failing(*conflicts), 3)
    assert caught.value is conflicts[-1]


def test_those_who_compete_get_out_of_step(pauses: list[float]) -> None:
    retry_on_conflict(failing(*map(Away, "12345")), 6, Away, jitter=0.05)
    limits = [0.05, 0.1, 0.2, 0.4, 0.8]
    assert len(set(pauses)) == len(limits)
    assert all(0 <= pause <= limit for pause, limit in zip(pauses, limits, strict=True))


def test_a_conflict_that_no_other_try_mends(pauses: list[float]) -> None:
    with pytest.raises(GoneForGood):
        retry_on_conflict(failing(Away(), GoneForGood()), 5, Away, unless=(GoneForGood,))
    assert len(pauses) == 1


def test_a_look_is_repeated_until_it_is_enough(pauses: list[float]) -> None:
    answers = iter([1, 2, 3, 4])
    order: list[int] = []
    seen = poll_until(
        lambda answer: answer == 3,
        lambda: next(answers),
        every=0.25,
        before_retry=lambda: order.append(len(pauses)),
    )
    assert seen == 3
    assert pauses == [0.25, 0.25]
    assert order == [1, 2]


def test_what_was_seen_last_counts_when_time_is_up() -> None:
    answers = iter(range(1000))
    seen = poll_until(lambda _: False, lambda: next(answers), every=0.01, within=0.05)
    assert 1 <= seen <= 5
    assert poll_until(lambda _: False, lambda: "once", every=5, within=0) == "once"


def test_so_many_looks(pauses: list[float]) -> None:
    answers = iter(range(1000))
    assert poll_until(lambda _: False, lambda: next(answers), every=2, looks=3) == 2
    assert pauses == [2, 2]
