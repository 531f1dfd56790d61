"""Whose table it is: the table says so itself, and the first topic that got it keeps it.

Names of topics that differ in case, or in characters that catalogs do not allow, share a table's name:
`payments` and `Payments`, `shop_orders` and `shop-orders`.
"""

from __future__ import annotations

from pyiceberg.table import Table

from tableflow_assets.base.errors import TableOfAnother
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.table.formats import TOPIC_PROPERTY
from tableflow_assets.table.ledger import newest_entry


def owner_of(table: Table) -> str | None:
    """The topic or product whose rows it holds: as its ledger says or, without one, its property."""
    entry = newest_entry(table)
    return entry.topic if entry else table.properties.get(TOPIC_PROPERTY)


def refuse_table_of_another(table: Table, spec: ManagedTable) -> None:
    owner = owner_of(table)
    if owner is None or owner == spec.name:
        return
    raise TableOfAnother(
        f"The table {'.'.join(table.name())} holds the rows of {owner!r}; {spec.name!r} would have the"
        " same name there, and gets no table. Nothing was changed.",
        f"Leave {spec.name!r} out of `topics` in tableflow.yaml, or copy it to a topic of another name.",
        owner,
    )
