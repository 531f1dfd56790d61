"""The order of the faults: the same for the same seed, and no kind left out."""

from __future__ import annotations

from collections import Counter

import pytest

from tableflow_assets.base.boundary import BOUNDARIES
from tableflow_assets.chaos.kinds import (
    AT_BOUNDARY,
    GROUPS,
    KINDS,
    MAINTAINING_SERVERS,
    SERVERS,
    schedule,
    without_servers,
)
from tableflow_assets.stack.stack import DATA_SERVERS

PATH = {
    *("driver", "spark", "kafka", "registry", "seaweed", "two_runs", "zombie"),
    *("at_planned", "at_files_written", "at_dead_letters_kept", "at_committed", "before_event"),
}
MAINTENANCE = {
    *("at_committed", "at_vectors_written", "at_mirrored"),
    *("at_compacting", "at_compacted", "at_expiring", "at_expired"),
    *("maintainer", "maintained", "spark_maintaining", "seaweed_maintaining"),
}
EXPECTED = PATH | MAINTENANCE


def test_every_kind_is_there() -> None:
    assert set(KINDS) == EXPECTED
    assert len(KINDS) == len(EXPECTED)


def test_the_groups_hold_all_kinds() -> None:
    groups = {name: set(kinds) for name, kinds in GROUPS.items()}
    assert groups == {"all": EXPECTED, "path": PATH, "maintenance": MAINTENANCE}
    assert all(len(set(kinds)) == len(kinds) for kinds in GROUPS.values())


def test_kinds_that_kill_servers_need_servers_of_ones_own() -> None:
    killing = {*SERVERS, *MAINTAINING_SERVERS}
    assert set(without_servers(KINDS)) == EXPECTED - killing
    assert set(MAINTAINING_SERVERS.values()) <= set(SERVERS)


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
