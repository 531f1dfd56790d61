"""Which faults there are, and in which order a seed deals them out."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tableflow_assets.boundary import BOUNDARIES, Boundary

SERVERS = ("spark", "kafka", "registry", "seaweed")


def kind_at(boundary: Boundary) -> str:
    return boundary if boundary.startswith("before_") else f"at_{boundary}"


AT_BOUNDARY: dict[str, Boundary] = {kind_at(boundary): boundary for boundary in BOUNDARIES}
WITHOUT_SERVERS = ("driver", *AT_BOUNDARY, "two_runs", "zombie")
KINDS = (*SERVERS, *WITHOUT_SERVERS)


def schedule(seed: int, kills: int, kinds: Sequence[str] = KINDS) -> list[str]:
    """Round after round, each with every kind in an order of its own: no kind falls behind."""
    chance = random.Random(seed)  # noqa: S311  (to be repeated, not to be secret)
    chosen: list[str] = []
    while len(chosen) < kills:
        chosen += chance.sample(kinds, len(kinds))
    return chosen[:kills]
