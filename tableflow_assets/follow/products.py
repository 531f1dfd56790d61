"""Products in a staying process: each takes in what its inputs gain, at a bounded share of the machine.

What is kept here are hints. A turn asks the ledgers whether there is anything to do, so a hint too many costs
a look, and one too few costs the time until all products are looked at again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tableflow_assets.base.errors import InputMissing, TableflowError
from tableflow_assets.base.faults import named_faults
from tableflow_assets.follow.pace import Pace
from tableflow_assets.follow.workers import Limits, Permit, Workers
from tableflow_assets.product.products import Product
from tableflow_assets.product.runner import RunResult
from tableflow_assets.publish.status import CatalogStatus
from tableflow_assets.tableflow import Tableflow

TAKEN_SECONDS = 5.0  # before a product that another run works on is tried again


@dataclass(frozen=True)
class ProductTurn:
    """What came of one visit to a product. ``waits_for``: why it cannot be computed yet."""

    product: Product
    result: RunResult = field(default_factory=RunResult)
    seconds: float = 0.0
    is_taken: bool = False
    waits_for: str = ""
    error: TableflowError | None = None

    @property
    def name(self) -> str:
        return self.product.name

    @property
    def has_committed(self) -> bool:
        return not self.result.did_nothing

    @property
    def is_work_done(self) -> bool:
        return self.has_committed

    @property
    def catalogs(self) -> Sequence[CatalogStatus]:
        return self.result.catalogs

    @property
    def summary(self) -> str:
        return f"{self.result} in {self.seconds:.2f} s"


OnProductTurn = Callable[[ProductTurn], None]


def take_product_turn(
    tableflow: Tableflow, product: Product, permit: Permit, run_id: str
) -> ProductTurn:
    """Raises nothing: what fails is this product's own."""
    begin = time.monotonic()
    result, is_free, waits_for, error = RunResult(), True, "", None
    try:
        with (
            named_faults(product.name, tableflow.settings.state_dir),
            permit(product.spec) as is_free,
        ):
            if is_free:
                result = tableflow.runner(product).run(run_id)
    except InputMissing as missing:
        waits_for = missing.problem
    except TableflowError as failure:
        error = failure
    return ProductTurn(
        product,
        result,
        seconds=time.monotonic() - begin,
        is_taken=not is_free,
        waits_for=waits_for,
        error=error,
    )


@dataclass
class _Followed:
    product: Product
    stale_since: float | None  # when an input changed, or may have; None: it has taken in all
    failures: int = 0  # since its last success
    not_before: float = 0.0

    def is_waiting(self, now: float) -> bool:
        return self.stale_since is not None and now >= self.not_before

    def since(self) -> float:
        return self.stale_since or 0.0


class FollowedProducts:
    """Only the loop's thread calls it."""

    def __init__(
        self,
        products: Sequence[Product],
        make_tableflow: Callable[[], Tableflow],
        pace: Pace,
        run_id: str,
        permit: Permit,
        on_turn: OnProductTurn,
    ) -> None:
        now = time.monotonic()
        self._followed = {product.name: _Followed(product, now) for product in products}
        self._readers: dict[str, list[_Followed]] = defaultdict(list)  # by table
        for followed in self._followed.values():
            for source in followed.product.inputs:
                self._readers[source.table].append(followed)
        self._workers = Workers[Product, ProductTurn](
            make_tableflow,
            lambda tableflow, product: take_product_turn(tableflow, product, permit, run_id),
            Limits(
                pace.products,
                pace.products_rest,
                pace.products_longest_rest,
                pace.products_hung_seconds,
            ),
        )
        self._pace, self._on_turn = pace, on_turn
        self._next_look = now + pace.products_look_seconds

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way that may still come to an end."""
        return bool(self._workers.busy - self._workers.hung())

    def note_change(self, table: str, now: float) -> None:
        for reader in self._readers[table]:
            if reader.stale_since is None:
                reader.stale_since = now

    @property
    def busy(self) -> set[str]:
        return self._workers.busy

    def give_turns(self, now: float, packed: set[str]) -> bool:
        """Return whether any product waits for one. ``packed``: tables whose files are being merged."""
        if now >= self._next_look:
            self._doubt_all(now)
        waiting = [followed for followed in self._followed.values() if followed.is_waiting(now)]
        for followed in sorted(waiting, key=_Followed.since):  # equals in the products' order
            if not self._workers.has_room():
                break
            if followed.product.name in self.busy | packed or self._must_wait(followed, now):
                continue
            followed.stale_since = None  # what changes from here on is for the next turn
            self._workers.start(followed.product)
        return bool(waiting)

    def settle(self) -> list[ProductTurn]:
        """The turns that have ended, each told to whoever wants to know."""
        turns = self._workers.collect(timeout=0)
        for turn in turns:
            self._settle(turn, time.monotonic())
            self._on_turn(turn)
        return turns

    def _doubt_all(self, now: float) -> None:
        """Commits from elsewhere, rollbacks and dropped tables show in the ledgers alone."""
        self._next_look = now + self._pace.products_look_seconds
        for followed in self._followed.values():
            if followed.stale_since is None:
                followed.stale_since = now

    def _must_wait(self, followed: _Followed, now: float) -> bool:
        """For a product that it reads and that is about to change, or it would be computed twice.

        Not for one that fails, nor for one that changes again and again: who waits longer goes first.
        """
        for upstream in followed.product.upstream:
            other = self._followed[upstream.name]
            is_earlier = other.is_waiting(now) and other.since() <= followed.since()
            if is_earlier or upstream.name in self._workers.busy:
                return True
        return False

    def _settle(self, turn: ProductTurn, now: float) -> None:
        followed = self._followed[turn.name]
        if turn.is_taken:
            followed.stale_since, followed.not_before = now, now + TAKEN_SECONDS
        elif turn.error is not None:
            followed.failures += 1
            followed.stale_since = now
            followed.not_before = now + self._pace.wait_after(followed.failures)
        else:
            followed.failures = 0
        if turn.has_committed:
            self.note_change(turn.product.spec.table, now)
