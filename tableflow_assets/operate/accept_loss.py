"""Go on after offsets that expired unread, and write down which they were."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.plan import lost_before
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.written import Written

Span = tuple[int, int, int]  # partition, from, to
# Every entry repeats them. `verify` can no longer tell of older ones that there never was a row; the
# entry that recorded them stays in the history for as long as its snapshot.
SPANS_KEPT = 2000


def accept_loss(pipeline: Pipeline, run_id: str = "") -> dict[int, tuple[int, int]]:
    """Return what is lost: per partition, the offsets [from, to)."""
    topic = pipeline.log.identify(pipeline.topic.name)
    table = pipeline.ensure_table(topic)
    ledger = read_ledger(table)
    lost = lost_before(pipeline.log, topic, ledger)
    if not lost:
        return lost
    start = ledger.committed | {partition: to for partition, (_, to) in lost.items()}
    ranges = tuple((partition, *offsets) for partition, offsets in sorted(lost.items()))
    entry = replace(
        ledger.entry,
        kind="loss",
        start=start,
        end=start,
        run_id=run_id,
        lost=_newest((*ledger.entry.lost, *ranges), at_least=len(ranges)),
    )
    with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
        commits.append_nothing(pipeline.catalog, table, branch, entry)
        pipeline.commit_and_mirror(table, branch, ledger.head, Written(0))
    return lost


def _newest(spans: Sequence[Span], at_least: int) -> tuple[Span, ...]:
    return tuple(spans[-max(SPANS_KEPT, at_least) :])
