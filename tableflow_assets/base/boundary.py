"""The named moments between the steps of a commit, for those who want to break it exactly there.

The chaos harness listens and kills or stops the process; nobody else does, and then nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

Boundary = Literal[
    "planned",  # nothing is written yet
    "files_written",  # rows and ledger entry are on the writer's branch, which no reader sees
    "dead_letters_kept",  # so are the dead letters, in their own table
    "committed",  # the catalog has moved the table; its answer is not yet acted on
    "vectors_written",  # the Delta log will refer to them, and does not yet
    "mirrored",  # the Delta log shows what Iceberg shows
    "compacting",  # Spark is about to write the table's files anew
    "compacted",  # the table has them; the Delta log does not show them yet
    "expiring",  # old snapshots are about to go, with the files that only they refer to
    "expired",  # they are gone; the Delta log still names versions that nobody can read any more
    "before_event",  # all is done but Dagster does not know it
]
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)

_listener: Callable[[Boundary], None] | None = None


def listen(listener: Callable[[Boundary], None] | None) -> None:
    global _listener  # noqa: PLW0603  (one process, one listener)
    _listener = listener


def reached(boundary: Boundary) -> None:
    if _listener is not None:
        _listener(boundary)
