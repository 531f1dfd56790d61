"""Changes to a table that do not mind other writers."""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from tableflow_assets.base.errors import CommitConflict
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.lake.catalog import RestCatalog

PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)  # seconds before a refused commit is tried again


def change_table(catalog: RestCatalog, table: Table, commit: Callable[[], object]) -> None:
    """Change what is ours alone, such as our branch.

    A catalog may refuse one of two commits at the same time, even if they have nothing to do with each
    other.
    """
    try:
        retry_after_pauses(
            lambda: catalog.ask(commit),
            PAUSES,
            CommitFailedException,
            before_retry=lambda: catalog.ask(table.refresh),
        )
    except CommitFailedException as error:
        raise kept_changing(table) from error


def kept_changing(table: Table) -> CommitConflict:
    return CommitConflict(
        f"Other writers kept changing {'.'.join(table.name())} at the same time.", "Run again."
    )
