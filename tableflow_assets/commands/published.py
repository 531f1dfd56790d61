"""After a command has committed to a table: what the catalogs that show it made of that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tableflow_assets.publish.status import CatalogStatus


def warn_of_failures(table: str, catalogs: Iterable[CatalogStatus]) -> None:
    """A catalog that failed is no failure of the command: the rows are committed."""
    for status in catalogs:
        if status.state == "failed":
            click.secho(
                f"{table} is committed, but {status.catalog} does not show it:"
                f" {status.reason}\n  Next step: {status.next_step}",
                fg="yellow",
                err=True,
            )
