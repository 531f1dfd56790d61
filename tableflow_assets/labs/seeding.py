"""Everything that follows from the seed: the random numbers and the ids."""

from __future__ import annotations

from random import Random

# Each seed numbers its rows within a block of its own, so that sets of different seeds can share
# a topic without claiming the same order or booking. 200 blocks fit into Avro's 32-bit int.
ID_BLOCK = 10_000_000
ID_BLOCKS = 200


def seeded_random(seed: int, lab: str) -> Random:
    """The random numbers of one lab; another lab's draws never shift them."""
    return Random(f"{lab}-{seed}")  # noqa: S311 - repeatable on purpose, nothing secret


def first_id(seed: int) -> int:
    return seed % ID_BLOCKS * ID_BLOCK + 1
