"""After a command has committed to a table: the catalogs that show it are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tableflow_assets.settings.settings import Topic
    from tableflow_assets.tableflow import Tableflow


def tell_catalogs(tableflow: Tableflow, table: Topic) -> None:
    """What a catalog has wrong is said, and is no failure of the command: the rows are committed."""
    for standing in tableflow.publisher.publish(table):
        if standing.state == "failed":
            click.secho(
                f"{table.name} is committed, but {standing.catalog} does not show it:"
                f" {standing.reason}\n  Next step: {standing.next_step}",
                fg="yellow",
                err=True,
            )
