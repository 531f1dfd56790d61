"""Changes to a table that fear no other writer."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.lake.catalog import RestCatalog

PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # seconds before a refused commit is tried again


def insist(catalog: RestCatalog, table: Table, commit: Callable[[], object]) -> None:
    """Change what is ours alone, such as our branch.

    A catalog may refuse one of two commits at once, even if they have nothing to do with another.
    """
    for pause in PAUSES:
        try:
            catalog.ask(commit)
            return
        except CommitFailedException:
            time.sleep(pause)
            catalog.ask(table.refresh)
    raise CommitConflict(
        f"Other writers kept changing {'.'.join(table.name())} at the same time.", "Run again."
    )
