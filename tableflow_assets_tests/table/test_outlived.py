"""Which erasures the ledger need not repeat any more."""

from __future__ import annotations

import pytest

from tableflow_assets.table.keyed.outlived import remaining_erasures
from tableflow_assets.table.ledger import Forgotten

ANN, BOB = "aa" * 16, "bb" * 16


@pytest.mark.parametrize(
    ("earliest", "everywhere", "remaining"),
    [
        ({0: 4, 1: 4}, {0: 5, 1: 3}, {0: 5}),  # the log may still hold the key before offset 5
        ({0: 5, 1: 4}, {0: 5, 1: 3}, {}),
        ({1: 9}, {0: 5, 1: 3}, {0: 5}),  # nothing is known about partition 0
        ({0: 9, 1: 9}, {0: 4, 1: 3}, {0: 5, 1: 3}),  # a state to go back to has rows of the key
        ({0: 9, 1: 9}, {}, {0: 5, 1: 3}),
        ({0: 9, 1: 9}, {0: 8, 1: 8}, {}),  # erased again since then
    ],
)
def test_an_erasure_stays_while_log_or_table_could_bring_the_key_back(
    earliest: dict[int, int], everywhere: dict[int, int], remaining: dict[int, int]
) -> None:
    erasures = (Forgotten(ANN, {0: 5, 1: 3}), Forgotten(BOB, {0: 50}))
    known = (Forgotten(ANN, everywhere), Forgotten(BOB, {0: 50}))
    expected = (*([Forgotten(ANN, remaining)] if remaining else []), Forgotten(BOB, {0: 50}))
    assert remaining_erasures(erasures, earliest, known) == expected
