"""After a command has committed to a table: which catalogs failed to show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tableflow_assets.publish.status import CatalogStatus


def warn_of_failures(table: str, catalogs: Iterable[CatalogStatus]) -> None:
    """A failing catalog does not fail the command: the rows are committed."""
    for status in catalogs:
        if status.state == "failed":
            click.secho(
                f"{table} is committed, but {status.catalog} does not show it:"
                f" {status.reason}\n  Next step: {status.next_step}",
                fg="yellow",
                err=True,
            )
