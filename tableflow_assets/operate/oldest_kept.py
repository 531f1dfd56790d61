"""How far back a table's `retention` reaches."""

from __future__ import annotations

from datetime import datetime

from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.windows import window_start


def oldest_kept(table: ManagedTable, now: datetime) -> datetime | None:
    """The start of the oldest window that is not dropped yet; None where rows stay forever."""
    if table.retention is None:
        return None
    return window_start(table.window, now - table.retention)
