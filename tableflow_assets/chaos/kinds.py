"""The kinds of faults, and the order in which a seed deals them out."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tableflow_assets.base.boundary import BOUNDARIES, Boundary

SERVERS = ("spark", "kafka", "registry", "seaweed")
# By kind: the servers that maintenance needs, killed while it works.
MAINTAINING_SERVERS = {"spark_maintaining": "spark", "seaweed_maintaining": "seaweed"}
# Only reached by maintenance, not by a run.
OF_MAINTENANCE: tuple[Boundary, ...] = ("compacting", "compacted", "expiring", "expired")


def kind_at(boundary: Boundary) -> str:
    return boundary if boundary.startswith("before_") else f"at_{boundary}"


AT_BOUNDARY: dict[str, Boundary] = {kind_at(boundary): boundary for boundary in BOUNDARIES}
_OF_MIRROR = ("at_vectors_written", "at_mirrored")

PATH = (
    *SERVERS,
    "driver",
    *(
        kind
        for kind, boundary in AT_BOUNDARY.items()
        if boundary not in OF_MAINTENANCE and kind not in _OF_MIRROR
    ),
    "two_runs",
    "zombie",
)
MAINTENANCE = (
    "at_committed",  # the Iceberg table has moved, its Delta log has not
    *_OF_MIRROR,
    *map(kind_at, OF_MAINTENANCE),
    "maintainer",
    "maintained",
    *MAINTAINING_SERVERS,
)
KINDS = tuple(dict.fromkeys((*PATH, *MAINTENANCE)))
GROUPS: dict[str, tuple[str, ...]] = {"all": KINDS, "path": PATH, "maintenance": MAINTENANCE}


def without_servers(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds that work on servers which are not ours to kill."""
    return tuple(kind for kind in kinds if kind not in (*SERVERS, *MAINTAINING_SERVERS))


def schedule(seed: int, kills: int, kinds: Sequence[str] = KINDS) -> list[str]:
    """Rounds with every kind once, each round in its own order, so that no kind falls behind."""
    chance = random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)
    faults: list[str] = []
    while len(faults) < kills:
        faults += chance.sample(kinds, len(kinds))
    return faults[:kills]
