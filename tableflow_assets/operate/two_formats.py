"""Do both formats of a table show the same, file by file and row by row?"""

from __future__ import annotations

from tableflow_assets.base.retry import poll_until
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.table.delta.compare import compare
from tableflow_assets.table.delta.compare_files import Finding
from tableflow_assets.table.delta.mirror import follow
from tableflow_assets.table.formats import is_delta

LOOKS = 3
PAUSE_SECONDS = 2.0


def differences(catalog: RestCatalog, topic: Topic) -> tuple[Finding, ...]:
    """For a table that no run is writing to. Only what is still there at the last look counts.

    A compaction outlives the process that asked Spark for it: it may be committed after that process
    was killed, and even after the next run. Then the Delta log is behind until somebody looks.
    """
    table = catalog.find(topic.table)
    if table is None or not is_delta(table):
        return ()
    last = poll_until(
        lambda compared: compared.ok,
        lambda: compare(catalog, table, rows=True, patience=0),
        every=PAUSE_SECONDS,
        looks=LOOKS,
        before_retry=lambda: follow(catalog, table),
    )
    return last.findings
