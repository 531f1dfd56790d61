"""How long a topic's unread records may gather, so that a commit brings many: `commit` in tableflow.yaml."""

from __future__ import annotations

from pyiceberg.table import Table

from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.snapshots import total_now


def gathering_seconds(topic: Topic, unread: int, record_bytes: float) -> float:
    """After this time, or at once: there is enough to commit. ``record_bytes``: 0 if not known."""
    is_enough = unread >= topic.max_records or unread * record_bytes >= topic.commit_bytes
    return 0.0 if is_enough else topic.commit_every.total_seconds()


def record_bytes(table: Table | None) -> float:
    """What a record has taken so far in the table's files; 0 if there is none."""
    records = total_now(table, "total-records") if table is not None else 0
    return total_now(table, "total-files-size") / records if table is not None and records else 0.0
