"""The order of the faults: the same for the same seed, and no kind left out."""

from __future__ import annotations

from collections import Counter

import pytest

from tableflow_assets.boundary import BOUNDARIES
from tableflow_assets.chaos.kinds import AT_BOUNDARY, KINDS, SERVERS, WITHOUT_SERVERS, schedule
from tableflow_assets.stack.stack import DATA_SERVERS

EXPECTED = {
    *("driver", "spark", "kafka", "registry", "seaweed", "two_runs", "zombie"),
    *("at_planned", "at_files_written", "at_dead_letters_kept", "at_committed", "before_event"),
}


def test_every_kind_is_there() -> None:
    assert set(KINDS) == EXPECTED
    assert len(KINDS) == len(EXPECTED)
    assert set(WITHOUT_SERVERS) == EXPECTED - set(SERVERS)


def test_every_boundary_and_every_data_server_has_its_kind() -> None:
    assert set(AT_BOUNDARY.values()) == set(BOUNDARIES)
    assert set(SERVERS) == {server.name for server in DATA_SERVERS}


def test_a_seed_makes_one_schedule() -> None:
    assert schedule(7, 100) == schedule(7, 100)
    assert schedule(7, 100) != schedule(8, 100)


@pytest.mark.parametrize("seed", range(20))
def test_of_a_hundred_every_kind_gets_its_share(seed: int) -> None:
    faults = schedule(seed, 100)
    assert len(faults) == 100
    assert min(Counter(faults)[kind] for kind in KINDS) >= 3
    assert set(faults[: len(KINDS)]) == EXPECTED


def test_a_short_schedule_is_the_beginning_of_a_long_one() -> None:
    assert schedule(3, 5) == schedule(3, 100)[:5]
    assert set(schedule(3, 50, ["driver", "zombie"])) == {"driver", "zombie"}
