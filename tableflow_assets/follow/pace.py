"""How often, how long and how many at a time: what a staying process may take of the machine."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 5.0, 300.0  # before a topic that failed is tried again


@dataclass(frozen=True)
class Pace:
    """``rest``: a worker rests after a turn for this share of its time. That gathers records into fewer,
    larger commits, and leaves a part of the machine to queries. A topic with more to read gets no rest.

    Products have workers of their own, so that a long computation keeps no record waiting.
    """

    workers: int = 2
    look_seconds: float = 0.5
    turn_seconds: float = 20.0  # then another topic's turn comes, whatever is left to read
    rest: float = 1.0
    longest_rest: float = 5.0  # seconds, after a turn that was long for once
    idle_seconds: float = 60.0  # without anything new, before it ends
    discover_seconds: float = 10.0
    # A turn that takes this long is not waited for any more: its worker is replaced.
    hung_seconds: float = 1800.0
    patience_seconds: float = 60.0  # without a single success while turns fail, before it gives up
    products: int = 1  # at a time
    products_rest: float = 2.0
    products_longest_rest: float = 60.0
    # Before products of which nothing was heard are looked at again.
    products_look_seconds: float = 60.0
    products_hung_seconds: float = 3600.0

    def wait_after(self, failures: int) -> float:
        return min(FIRST_WAIT_SECONDS * 2.0 ** (failures - 1), LONGEST_WAIT_SECONDS)
