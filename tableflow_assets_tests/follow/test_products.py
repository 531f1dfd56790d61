"""Which product is computed when, in a staying process: with scripted topics and products."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tableflow_assets.base.errors import ServerUnreachable, TableflowError
from tableflow_assets.follow import pace as paces
from tableflow_assets.follow import products
from tableflow_assets.follow.follow import follow
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.products import ProductTurn
from tableflow_assets.follow.turn import Turn
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets_tests.follow.scripted import Script

QUICK = Pace(look_seconds=0.02, rest=0, idle_seconds=0.5, products_rest=0)
LABS = {"unique": ("payments",), "completed": ("unique", "orders")}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paces, "FIRST_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(products, "TAKEN_SECONDS", 0.05)


def shop(folder: Path, **faults: object) -> Script:
    ends = {"payments": 3, "orders": 2}
    return Script(folder, ends, products=dict(LABS), faults=faults)  # type: ignore[arg-type]


def refuse() -> None:
    raise TableflowError("this product cannot be computed")


def up_to_date(script: Script) -> bool:
    return all(
        script.taken_in.get(name) == {table: script.version_of(table) for table in tables}
        for name, tables in script.products.items()
    )


def test_what_is_committed_reaches_all_products_before_it_ends(tmp_path: Path) -> None:
    script = shop(tmp_path)
    follow(script.tableflow, pace=QUICK)
    assert script.committed == {"payments": 3, "orders": 2}
    assert script.taken_in["completed"] == {"unique": 3, "orders": 2}
    assert up_to_date(script)


def test_a_product_is_computed_again_whenever_an_input_has_changed(tmp_path: Path) -> None:
    script = shop(tmp_path)

    def more(turn: ProductTurn) -> None:
        if turn.name == "completed" and turn.has_committed and script.ends["payments"] < 6:
            script.ends["payments"] += 1

    follow(script.tableflow, pace=QUICK, on_product_turn=more)
    assert script.taken_in["completed"] == {"unique": 6, "orders": 2}


def test_what_changes_while_a_product_is_computed_is_for_its_next_turn(tmp_path: Path) -> None:
    script = shop(tmp_path)
    script.computing_seconds = 0.2

    def more(turn: Turn) -> None:
        script.ends["orders"] = 9

    follow(script.tableflow, pace=QUICK, on_turn=more)
    assert script.taken_in["completed"]["orders"] == 9


def test_one_whose_input_changes_all_the_time_waits_no_longer_for_it(tmp_path: Path) -> None:
    """Its input is always behind by then: it takes what is there."""
    script = shop(tmp_path)
    script.computing_seconds = 0.05
    end = time.monotonic() + 1.5

    def more(turn: Turn) -> None:
        if turn.name == "payments" and time.monotonic() < end:
            script.ends["payments"] += 1

    follow(script.tableflow, pace=QUICK, on_turn=more)
    computed = [name for name in script.turns if name in LABS]
    assert computed.count("completed") >= computed.count("unique") / 3
    assert up_to_date(script)


def test_after_a_restart_nothing_is_computed_that_is_up_to_date(tmp_path: Path) -> None:
    script = shop(tmp_path)
    follow(script.tableflow, pace=QUICK)
    before = dict(script.taken_in)
    committed: list[str] = []

    def note(turn: ProductTurn) -> None:
        committed.extend([turn.name] if turn.has_committed else [])

    follow(script.tableflow, pace=QUICK, on_product_turn=note)
    assert (script.taken_in, committed) == (before, [])


def test_commits_from_elsewhere_are_found_by_looking_again(tmp_path: Path) -> None:
    script = shop(tmp_path)
    follow(script.tableflow, pace=QUICK)
    began = time.monotonic()

    def is_over() -> bool:
        script.committed["orders"] = script.ends["orders"] = 7  # by another process
        return script.taken_in["completed"]["orders"] == 7 or time.monotonic() > began + 10

    pace = replace(QUICK, idle_seconds=60, products_look_seconds=0.1)
    follow(script.tableflow, pace=pace, is_over=is_over)
    assert up_to_date(script)


def test_one_that_fails_is_tried_again_later_and_holds_up_no_other(tmp_path: Path) -> None:
    script = shop(tmp_path, unique=refuse)
    script.products["of_orders"] = ("orders",)
    script.taken_in["unique"] = {"payments": 1}  # from better days
    errors: list[str] = []

    def mend(turn: ProductTurn) -> None:
        errors.extend([turn.name] if turn.error else [])
        if len(errors) == 3:
            script.faults.clear()

    follow(script.tableflow, pace=replace(QUICK, idle_seconds=1.5), on_product_turn=mend)
    assert errors == ["unique"] * 3
    first_of_others = [script.turns.index(name) for name in ("completed", "of_orders")]
    last_failure = [at for at, name in enumerate(script.turns) if name == "unique"][2]
    assert max(first_of_others) < last_failure
    assert up_to_date(script)


def test_one_without_its_input_waits_and_is_no_failure(tmp_path: Path) -> None:
    script = shop(tmp_path)
    script.ends["orders"] = 0
    turns: list[ProductTurn] = []
    follow(script.tableflow, pace=QUICK, on_product_turn=turns.append)
    waiting = [turn for turn in turns if turn.name == "completed"]
    assert waiting and all(turn.waits_for and turn.error is None for turn in waiting)


def test_one_that_another_run_computes_is_left_to_it(tmp_path: Path) -> None:
    script = shop(tmp_path)
    refusals = iter([False, False])

    @contextmanager
    def permit(table: ManagedTable) -> Iterator[bool]:
        yield next(refusals, True) if getattr(table, "table", "") == "unique" else True

    turns: list[ProductTurn] = []
    follow(script.tableflow, pace=QUICK, permit=permit, on_product_turn=turns.append)
    assert [turn.is_taken for turn in turns if turn.name == "unique"][:3] == [True, True, False]
    assert up_to_date(script)


def test_topics_do_not_wait_for_a_product_that_takes_long(tmp_path: Path) -> None:
    computed = threading.Event()
    script = shop(tmp_path, unique=lambda: computed.wait(10))

    def more(turn: Turn) -> None:
        if turn.name == "payments" and script.ends["payments"] < 8:
            script.ends["payments"] += 1
        elif turn.name == "payments":
            computed.set()

    began = time.monotonic()
    follow(script.tableflow, pace=QUICK, on_turn=more)
    assert script.committed["payments"] == 8
    assert time.monotonic() - began < 8
    assert up_to_date(script)


def test_asked_to_end_it_lets_a_computation_finish(tmp_path: Path) -> None:
    script = shop(tmp_path)
    script.computing_seconds = 0.5
    follow(script.tableflow, pace=QUICK, is_over=lambda: "unique" in script.turns)
    assert script.taken_in["unique"] == {"payments": 3}


def test_named_topics_are_followed_without_products(tmp_path: Path) -> None:
    script = shop(tmp_path)
    follow(script.tableflow, topics=["payments", "orders"], pace=QUICK)
    assert script.committed == {"payments": 3, "orders": 2}
    assert script.taken_in == {}


def test_a_lost_spark_session_ends_it_at_once(tmp_path: Path) -> None:
    def no_session() -> None:
        raise ServerUnreachable("Spark Connect", "127.0.0.1:1", "INVALID_HANDLE")

    script = shop(tmp_path, unique=no_session)
    with pytest.raises(ServerUnreachable):
        follow(script.tableflow, pace=QUICK)


def test_its_worker_rests_so_that_products_take_a_bounded_share(tmp_path: Path) -> None:
    script = shop(tmp_path)
    script.computing_seconds = 0.1
    began = time.monotonic()
    follow(script.tableflow, pace=replace(QUICK, products_rest=5))
    assert up_to_date(script)
    assert time.monotonic() - began > 2 * 0.1 * 5  # after `unique`, and after `completed`
