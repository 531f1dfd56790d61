"""How a table's ledger begins, and how each commit's entry follows from the one before it."""

from __future__ import annotations

from dataclasses import replace

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.source.log import Offsets, TopicIdentity
from tableflow_assets.source.plan import Plan
from tableflow_assets.table.ledger import Entry, Ledger


def first_entry(topic: TopicIdentity, origin: Offsets, lineage: str = "") -> Entry:
    """For a table without rows: where in the log it begins."""
    return Entry(
        topic=topic.name,
        cluster_id=topic.cluster_id,
        topic_id=topic.topic_id,
        origin=origin,
        start=origin,
        end=origin,
        kind="origin",
        lineage=lineage,
    )


def refuse_a_stale_plan(step: Plan, ledger: Ledger) -> None:
    """A commit must start where the previous one ended."""
    for offsets in step.ranges:
        if offsets.start != ledger.committed.get(offsets.partition, 0):
            raise CommitConflict(
                f"{step.topic.name!r} partition {offsets.partition} was planned from"
                f" {offsets.start}; the table has read up to"
                f" {ledger.committed.get(offsets.partition, 0)}.",
                "Run again: the next plan starts where the table ends.",
            )


def next_entry(step: Plan, ledger: Ledger, schema_ids: tuple[int, ...], run_id: str) -> Entry:
    """The entry of a commit of the step's records."""
    # A partition that this plan does not cover stays where it is.
    start = ledger.committed | {offsets.partition: offsets.start for offsets in step.ranges}
    return replace(
        ledger.entry,
        kind="records",
        origin=start | ledger.origin,
        start=start,
        end=start | {offsets.partition: offsets.end for offsets in step.ranges},
        schema_ids=schema_ids,
        run_id=run_id,
    )
