"""Named moments between the steps of a commit, so that tests can break it exactly there.

The chaos harness listens, and kills or stops the process. Without a listener nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

Boundary = Literal[
    "planned",  # nothing is written yet
    "files_written",  # rows and ledger entry are on the writer's branch, which no reader sees
    "dead_letters_kept",  # the dead letters are in their own table, too
    "committed",  # the catalog has moved the table; its answer is not yet acted on
    "vectors_written",  # the Delta log does not refer to them yet
    "mirrored",  # the Delta log shows what Iceberg shows
    "compacting",  # Spark is about to rewrite the table's files
    "compacted",  # the table has the new files; the Delta log does not show them yet
    "expiring",  # old snapshots are about to go, with the files that only they refer to
    "expired",  # they are gone; the Delta log still lists versions that can no longer be read
    "before_event",  # everything is done, but Dagster does not know it yet
]
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)

_listener: Callable[[Boundary], None] | None = None


def listen(listener: Callable[[Boundary], None] | None) -> None:
    global _listener  # noqa: PLW0603  (one process, one listener)
    _listener = listener


def reached(boundary: Boundary) -> None:
    if _listener is not None:
        _listener(boundary)
