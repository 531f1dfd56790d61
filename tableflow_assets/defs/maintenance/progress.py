"""Which tables a run has not come to yet, kept in Dagster's storage: also if the run is killed.

A table that is begun with is no longer among them. So one that ends its process every time does not keep
the others waiting.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass

import dagster as dg
from pydantic import TypeAdapter, ValidationError

_CURSOR = "tableflow/maintenance"


@dataclass(frozen=True)
class Progress:
    run_id: str
    left: list[str]


def note_left(instance: dg.DagsterInstance, run_id: str, left: Collection[str]) -> None:
    text = json.dumps(asdict(Progress(run_id, list(left))))
    instance.daemon_cursor_storage.set_cursor_values({_CURSOR: text})


def left_by(instance: dg.DagsterInstance, run_id: str) -> list[str] | None:
    """None: that run did not come to say anything."""
    text = instance.daemon_cursor_storage.get_cursor_values({_CURSOR}).get(_CURSOR)
    try:
        progress = TypeAdapter(Progress).validate_json(text or "{}")
    except ValidationError:
        return None  # nobody has, or another version
    return progress.left if progress.run_id == run_id else None
