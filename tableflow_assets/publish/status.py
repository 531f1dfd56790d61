"""How one catalog shows one table, for people and machines."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Literal

from tableflow_assets.base.errors import CatalogAway, TableflowError
from tableflow_assets.base.masking import masked
from tableflow_assets.publish.base import SourceTable
from tableflow_assets.publish.publish import Difference

State = Literal["pending", "connected", "failed"]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CatalogStatus:
    """pending: not shown yet. connected: shown; ``behind`` says by how many snapshots it lags.

    failed: ``reason`` says why, ``next_step`` what to do.
    """

    catalog: str
    kind: str
    table: str
    topic: str
    state: State
    reason: str = ""
    next_step: str = ""
    listed_as: str = ""
    snapshot: int | None = None
    behind: int = 0
    lag_seconds: float | None = None
    differences: tuple[Difference, ...] = ()
    # False: there is no table yet, or not in a format that the catalog can show.
    can_be_shown: bool = True

    @property
    def is_in_step(self) -> bool:
        return self.state == "connected" and not self.behind

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"in_step": self.is_in_step}


def state_of_all(statuses: Iterable[CatalogStatus]) -> State:
    """Of a whole catalog: failed if any table failed, pending until the first one is shown."""
    states = {status.state for status in statuses}
    order: tuple[State, ...] = ("failed", "connected")
    return next((state for state in order if state in states), "pending")


def nothing_to_show(blank: CatalogStatus, why: str) -> CatalogStatus:
    return replace(blank, reason=why, can_be_shown=False)


def not_of_its_format(blank: CatalogStatus, source: SourceTable) -> CatalogStatus:
    formats = " and ".join(source.formats)
    why = f"A {blank.kind} catalog cannot show a table that is kept as {formats} only."
    return nothing_to_show(blank, why)


def failure_of(blank: CatalogStatus, error: Exception) -> CatalogStatus:
    if not isinstance(error, TableflowError):  # an unforeseen error of a client library
        logger.exception(
            "%s: %s could not be asked about %s", blank.kind, blank.catalog, blank.topic
        )
        reason = masked(f"{type(error).__name__}: {error}")
        return replace(blank, state="failed", reason=reason, next_step="The log has the traceback.")
    next_step = error.next_step
    if isinstance(error, CatalogAway) and not next_step:
        next_step = "It will be retried automatically."
    return replace(blank, state="failed", reason=error.problem, next_step=next_step)
