"""Erasures that no longer matter: neither the log nor an earlier state can bring the records back.

Every entry of the ledger repeats them, and every metadata.json repeats all entries.
"""

from __future__ import annotations

from dataclasses import replace

from pyiceberg.table import Table

from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.log import Offsets
from tableflow_assets.table.keyed.forgotten import Erasures, are_among, not_before
from tableflow_assets.table.ledger import Entry, read_entries
from tableflow_assets.table.letters.read import may_have_letters


def without_outlived(
    catalog: RestCatalog, table: Table, topic: Topic, entry: Entry, earliest: Offsets
) -> Entry:
    """The entry without erasures of records that the log, which begins at ``earliest``, has lost.

    They stay while a rollback could reach a state from before them, and while there are letters from
    their offsets, which a replay could take up.
    """
    ended = _ended(entry.forgotten, earliest)
    if not ended:
        return entry
    remaining = remaining_erasures(entry.forgotten, earliest, _oldest(table).forgotten)
    if remaining == entry.forgotten or may_have_letters(catalog, topic, entry, ended):
        return entry
    return replace(entry, forgotten=remaining)


def remaining_erasures(erasures: Erasures, earliest: Offsets, everywhere: Erasures) -> Erasures:
    """``everywhere``: the erasures that every state knows which a rollback could reach."""
    remaining: Erasures = ()
    for erased in erasures:
        is_everywhere = are_among((erased,), everywhere)
        remaining += not_before((erased,), earliest) if is_everywhere else (erased,)
    return remaining


def _ended(erasures: Erasures, earliest: Offsets) -> Offsets:
    """Per partition, the offset before which the log no longer has any of the erased records."""
    ended: Offsets = {}
    for erased in erasures:
        for partition, before in erased.before.items():
            if before <= earliest.get(partition, 0):
                ended[partition] = max(before, ended.get(partition, 0))
    return ended


def _oldest(table: Table) -> Entry:
    """Of the states that a rollback could reach: what it knows, all later ones know."""
    return read_entries(table)[-1][1]
