"""When a server is started again because of what it answers, and when it is left alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest

from tableflow_assets.stack import health
from tableflow_assets.stack.health import Health, Look

EVERY = 15.0
HOUR = 3600.0


def restarts(looks: Iterable[Look], server: Health | None = None) -> list[float]:
    server = server or Health()
    return [look.at for look in looks if server.note(look)]


def failing(
    until: float, *, since: float = 0.0, seconds: float = 0.1, cores: float = 0.0
) -> list[Look]:
    step = EVERY + seconds
    count = int((until - since) / step)
    return [Look(since + step * (n + 1), seconds, "HTTP 500", cores) for n in range(count)]


def test_a_server_that_answers_rightly_is_left_alone() -> None:
    assert restarts(Look(at, 0.1) for at in range(0, 10_000, 15)) == []


def test_a_server_that_answers_wrongly_for_a_minute_is_started_again() -> None:
    server = Health()
    (at,) = restarts(failing(until=90), server)
    assert health.WRONG_SECONDS <= at < health.WRONG_SECONDS + 2 * EVERY
    assert "HTTP 500" in server.problem


def test_one_right_answer_in_between_counts() -> None:
    looks = failing(until=50)
    looks += [Look(55, 0.1), *failing(since=55, until=105), Look(110, 0.1)]
    server = Health()
    assert restarts(looks, server) == []
    assert server.problem == ""


def test_a_hung_server_is_started_again_after_two_minutes() -> None:
    (at,) = restarts(failing(until=170, seconds=10))
    assert health.HUNG_SECONDS <= at < health.HUNG_SECONDS + 2 * (EVERY + 10)


def test_a_slow_server_that_computes_gets_ten_minutes() -> None:
    assert restarts(failing(until=590, seconds=10, cores=0.9)) == []
    assert len(restarts(failing(until=650, seconds=10, cores=0.9))) == 1


def test_it_was_slow_before_it_failed_at_once() -> None:
    looks = [*failing(until=100, seconds=10, cores=0.9), *failing(since=100, until=300)]
    assert restarts(looks) == []


def test_a_few_long_looks_are_not_enough() -> None:
    """Two of them, with all that is between, may take longer than a hung server is given."""
    looks = [Look(100, 60, "no answer"), Look(200, 60, "no answer")]
    assert restarts(looks) == []


@pytest.mark.parametrize("seconds", [0.1, 10.0])
def test_restarts_that_do_not_help_become_rare(seconds: float) -> None:
    server = Health()
    times = restarts(failing(until=10 * HOUR, seconds=seconds), server)
    pauses = [round(later - earlier) for earlier, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert all(pause >= least for pause, least in zip(pauses, health.PAUSES[1:], strict=False))
    assert sum(at > 5 * HOUR for at in times) <= 5
    assert f"started again {len(times)} times" in server.problem


def test_after_half_an_hour_in_good_health_old_restarts_are_forgotten() -> None:
    server = Health()
    first = restarts(failing(until=HOUR), server)
    assert len(first) > 2
    well = [Look(HOUR + n * EVERY, 0.1) for n in range(200)]
    assert restarts(well, server) == []
    since = well[-1].at
    (again,) = restarts(failing(since=since, until=since + 90), server)
    assert again - since < health.WRONG_SECONDS + 2 * EVERY
