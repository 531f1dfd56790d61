"""How much a table needs maintenance, as a number: of two tables, the one with more goes first."""

from __future__ import annotations

from tableflow_assets.operate.maintenance.health import Health
from tableflow_assets.settings.managed_table import ManagedTable


def urgency(health: Health, table: ManagedTable) -> int:
    """What every reader opens, and every commit writes again, although it need not be there.

    Each thing that is needed counts, too: what is only old has no number. 0: nothing is needed.
    """
    if not health.needs:
        return 0
    windows = (*health.windows, *([health.letters] if health.letters else ()))
    files: int = sum(
        window.small_files + window.delete_files for window in windows if window.remedy
    )
    manifests = health.manifests if "manifests" in health.kinds else 0
    snapshots = max(health.snapshots - table.max_snapshots, 0)
    return files + manifests + snapshots + len(health.needs)
