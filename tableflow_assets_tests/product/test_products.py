"""Every product of the labs against the oracle, on hostile records, however they arrive."""

from __future__ import annotations

import os

import pytest

from tableflow_assets.product.quality import run_checks
from tableflow_assets.product.recheck import recheck
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.product.hostile import hostile_records, shuffled, split
from tableflow_assets_tests.product.oracle import expected
from tableflow_assets_tests.product.world import World

# More of them take minutes each: TABLEFLOW_ARRIVALS=6 adds other seeds, orders and batches.
ARRIVALS = [(1, None, 1), (1, 7, 3), *((n, n, 2 + n % 4) for n in range(2, 100))]
# Checks that hold whatever the records say; others show what is odd in these.
ALWAYS_TRUE = (
    "no_order_twice",
    "paid_within_96_hours",
    "totals_equal_the_sales",
    "sums_equal_the_bookings",
    "nobody_has_booked",
)
CHOSEN = ARRIVALS[: int(os.environ.get("TABLEFLOW_ARRIVALS", "2"))]


@pytest.mark.parametrize(("seed", "order", "batches"), CHOSEN)
def test_all_products_are_what_the_oracle_says(
    tableflow: Tableflow, seed: int, order: int | None, batches: int
) -> None:
    world = World(tableflow)
    records = hostile_records(seed)
    if order is not None:
        records = shuffled(records, order)
    for batch in split(records, batches, seed) if batches > 1 else [records]:
        world.send(batch)
        world.land()
        world.run()
    rows_expected = expected(world.log())
    for name in world.sql:
        assert world.rows(name) == rows_expected[name], name
        assert recheck(world.runner(name)).passed, name
        assert all(finding.passed for finding in run_checks(world.runner(name), ALWAYS_TRUE)), name
    assert all(result.did_nothing for result in world.run().values())
