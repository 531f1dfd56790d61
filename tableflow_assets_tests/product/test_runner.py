"""A product's runs: what they leave alone, what they begin anew, and what happens if they die."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from tableflow_assets.base import boundary
from tableflow_assets.base.errors import InputMissing, ProductFailed
from tableflow_assets.base.spark_session import persisted
from tableflow_assets.labs.shift_left import ORDERS, PAYMENTS
from tableflow_assets.operate.maintenance.compact import compact
from tableflow_assets.operate.maintenance.expire import expire
from tableflow_assets.operate.moments import moment
from tableflow_assets.operate.rollback import find, roll_back
from tableflow_assets.product import difference
from tableflow_assets.product.recheck import recheck
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.ledger import read_entries, read_ledger
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.product.hostile import Sent
from tableflow_assets_tests.product.oracle import expected
from tableflow_assets_tests.product.world import World

START = datetime(2026, 3, 1, tzinfo=UTC)


def order(number: int, day: int = 0) -> Sent:
    at = START + timedelta(days=day)
    value = {"orderid": number, "customerid": 1, "orderdate": at, "channel": "web"}
    return Sent(ORDERS, str(number), _ms(at), value)


def payment(
    number: int | None, day: float = 1, card: str | None = "0000", amount: float = 1
) -> Sent:
    at = START + timedelta(days=day)
    value = {
        "order_id": number,
        "product_id": 1,
        "customer_id": 1,
        "confirmation_code": f"{number}-{day}",
        "cc_number": card,
        "expiration": "01/30",
        "amount": amount,
        "ts": at,
    }
    return Sent(PAYMENTS, f"{number}-{day}", _ms(at), value)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)


@pytest.fixture
def world(tableflow: Tableflow) -> World:
    return World(tableflow, ("unique_payments", "completed_orders"))


def brought(world: World, *records: Sent) -> World:
    world.send(records)
    world.land()
    return world


def assert_as_expected(world: World) -> None:
    rows_expected = expected(world.log())
    for name in world.sql:
        assert world.rows(name) == rows_expected[name]


def test_a_run_writes_what_changed_and_nothing_else(world: World) -> None:
    numbers = range(1, 10)
    brought(world, *(order(n, n) for n in numbers), *(payment(n, n + 1) for n in numbers))
    first = world.run()["completed_orders"]
    assert (first.rows_added, first.rows_removed, len(first.windows)) == (9, 0, 9)
    brought(world, payment(3, 3.5), payment(None, 2))
    payments, completed = world.run().values()
    # An earlier payment of order 3 takes the place of the one that was first until now.
    assert (payments.rows_added, payments.rows_removed, payments.values_affected) == (2, 1, 2)
    assert (completed.rows_added, completed.rows_removed, completed.values_affected) == (1, 1, 2)
    assert set(completed.windows) == {(START + timedelta(days=day)).date() for day in (3, 4)}
    assert_as_expected(world)
    assert all(result.did_nothing for result in world.run().values())


def test_spark_lets_go_of_what_a_run_kept_in_memory(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept for the commit is found again after it; if not, a server is full within an hour."""
    was_found: list[bool] = []

    @contextmanager
    def watched(rows: DataFrame) -> Iterator[DataFrame]:
        with persisted(rows) as kept:
            yield kept
            was_found.append(kept.storageLevel.useMemory)

    monkeypatch.setattr(difference, "persisted", watched)
    brought(world, order(1), payment(1))
    world.run()
    brought(world, order(2), payment(2), payment(1, 0.5))
    world.run()
    assert was_found == [True] * 4  # two products, twice


def test_a_column_that_the_sql_gains_is_null_in_rows_from_before(world: World) -> None:
    brought(world, order(1), payment(1), order(2), payment(2, card=None))
    world.run()
    world.sql["completed_orders"] = "completed_orders_with_method"
    world.run()
    brought(world, order(3), payment(3), order(4), payment(4, card=None))
    world.run()
    assert methods(world) == {1: None, 2: None, 3: "CREDIT_CARD", 4: "UNKNOWN"}
    assert recheck(world.runner("completed_orders")).passed
    result = world.runner("completed_orders").run(everything=True)
    assert (result.rows_added, result.rows_removed) == (2, 2)
    assert methods(world) == {1: "CREDIT_CARD", 2: "UNKNOWN", 3: "CREDIT_CARD", 4: "UNKNOWN"}
    assert recheck(world.runner("completed_orders")).passed


def methods(world: World) -> dict[int, str | None]:
    return {row["order_id"]: row["payment_method"] for row in world.rows("completed_orders")}


class Died(BaseException):
    """As by a kill: nothing catches it."""


@pytest.fixture
def _nobody_listens() -> Iterator[None]:
    yield
    boundary.listen(None)


@pytest.mark.usefixtures("_nobody_listens")
def test_a_run_that_dies_anywhere_has_committed_all_or_nothing(world: World) -> None:
    brought(world, *(order(n) for n in range(5)), *(payment(n, 1 + n / 10) for n in range(5)))
    world.run()
    for number, place in enumerate(("planned", "files_written", "committed", "mirrored")):
        brought(world, payment(number, 0.5), payment(100 + number), order(100 + number))

        def die(reached: boundary.Boundary, place: str = place) -> None:
            if reached == place:
                raise Died

        boundary.listen(die)
        for name in world.sql:
            with pytest.raises(Died):
                world.runner(name).run("dies")
        boundary.listen(None)
        world.run()
        assert_as_expected(world)
    for name in world.sql:
        table = world.tableflow.catalog.find(world.table(name))
        assert table is not None
        runs = [entry.inputs for _, entry in read_entries(table) if entry.kind == "product"]
        assert len({str(inputs) for inputs in runs}) == len(runs)  # none twice


def test_two_runs_at_once_commit_the_same_rows_once(world: World) -> None:
    brought(world, *(order(n) for n in range(5)), *(payment(n) for n in range(5)))
    runners = [world.runner("unique_payments") for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(lambda runner: runner.run(), runners))
    assert sum(result.rows_added for result in results) == 5
    world.run()
    assert_as_expected(world)


def test_an_input_that_was_rolled_back_is_read_anew_as_a_whole(world: World) -> None:
    brought(world, payment(1), order(1))
    brought(world, payment(2, amount=5), order(2))
    world.run()
    pipeline = world.tableflow.pipeline(world.tableflow.topic(world.topics[PAYMENTS].name))
    entries = read_entries(pipeline.existing_table())
    roll_back(pipeline, find(pipeline, moment(str(entries[1][0].snapshot_id)), pipeline.log))
    result = world.run()["unique_payments"]
    assert (result.rows_added, result.rows_removed, result.values_affected) == (0, 1, None)
    world.land()
    world.run()
    assert_as_expected(world)


def test_what_somebody_else_wrote_into_it_is_undone(world: World) -> None:
    brought(world, payment(1), payment(2))
    world.run()
    table = world.tableflow.catalog.find(world.table("unique_payments"))
    assert table is not None
    rows = table.scan().to_arrow()
    table.append(rows)
    table.append(rows.set_column(0, rows.schema.field(0), pa.array([7, 8], pa.int32())))
    result = world.run()["unique_payments"]
    assert result.values_affected is None
    assert_as_expected(world)
    assert recheck(world.runner("unique_payments")).passed


def test_its_table_is_looked_after_like_any_other(world: World) -> None:
    for number in range(3):
        brought(world, order(number), payment(number, 1.5), payment(0, 1.4 - number / 10))
        world.run()
    flow = world.tableflow
    handle = flow.handle(flow.table(world.table("unique_payments")))
    before = world.rows("unique_payments")
    # The first state, in which order 0 still has its first payment.
    entries = read_entries(handle.existing_table())
    assert compact(handle, include_newest=True).files_before > 1
    assert compare(handle.catalog, handle.existing_table(), rows=True).ok
    assert world.rows("unique_payments") == before
    assert all(result.did_nothing for result in world.run().values())
    roll_back(handle, find(handle, moment(str(entries[1][0].snapshot_id)), flow.log))
    assert world.rows("unique_payments") != before
    world.run()
    assert world.rows("unique_payments") == before
    expire(handle, older_than=timedelta(0), force=True)
    assert read_ledger(handle.existing_table()).entry.kind == "product"
    assert compare(handle.catalog, handle.existing_table(), rows=True).ok
    assert_as_expected(world)


def test_a_product_waits_for_inputs_that_are_not_there_yet(world: World) -> None:
    with pytest.raises(InputMissing, match="has no table yet"):
        world.runner("unique_payments").run()


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("SELECT nothing AS order_id, ts FROM payments", "does not understand"),
        ("SELECT 1 AS order_id, ts FROM payments", "without a key of their own: order_id=1"),
        (
            "SELECT order_id, ts FROM payments",
            "without a key of their own: order_id=2; order_id=None",
        ),
        ("SELECT order_id, ts, INTERVAL '1' MONTH AS odd FROM payments", "no table can have"),
    ],
)
def test_what_cannot_become_rows_is_named_and_changes_nothing(
    tableflow: Tableflow, tmp_path_factory: pytest.TempPathFactory, statement: str, problem: str
) -> None:
    file = tmp_path_factory.mktemp("sql") / "own.sql"
    header = """/*
description: A product with a mistake.
key: [order_id]
event_time: ts
lateness: 0 seconds
mode: upsert
changes: {payments: {order_id: order_id}}
*/"""
    file.write_text(f"{header}\n{statement}")
    world = World(tableflow, ("unique_payments",))
    brought(world, payment(None), payment(2), payment(2, 2))
    world.sql = {"own": str(file)}
    with pytest.raises(ProductFailed, match=problem):
        world.runner("own").run()
