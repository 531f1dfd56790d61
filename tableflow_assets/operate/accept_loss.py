"""Go on after offsets that expired unread, and write down which they were."""

from __future__ import annotations

from dataclasses import replace

from tableflow_assets.pipeline import Pipeline
from tableflow_assets.source.plan import lost_before
from tableflow_assets.table import commit as commits
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.written import Written


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
        lost=(*ledger.entry.lost, *ranges),
    )
    with commits.own_branch(pipeline.catalog, table, ledger.head) as branch:
        commits.append_nothing(pipeline.catalog, table, branch, entry)
        pipeline.commit_and_mirror(table, branch, ledger.head, Written(0))
    return lost
