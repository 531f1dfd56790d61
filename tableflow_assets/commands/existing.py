"""The table that a command is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tableflow_assets.errors import TableflowError
from tableflow_assets.settings import Topic

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from tableflow_assets.tableflow import Tableflow


def existing_table(tableflow: Tableflow, topic: Topic) -> Table:
    from tableflow_assets.table.known_tables import refuse_a_vanished_table

    table = tableflow.catalog.find(topic.table)
    if table is None:
        refuse_a_vanished_table(tableflow.settings.state_dir, topic, tableflow.catalog.namespace)
        raise TableflowError(
            f"The topic {topic.name!r} has no table yet.",
            f"Make it: tableflow materialize {topic.name}",
        )
    return table
