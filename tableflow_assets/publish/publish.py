"""Publishing to any catalog: in order, once, and never over an entry that is not ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tableflow_assets.base.errors import CatalogAway, ListingChanged, NotOurTable
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable

Outcome = Literal["nothing", "created", "replaced"]
Load = Callable[[], SourceTable]
# Seconds before it is tried again after another publisher was faster.
AFTER_A_LOST_RACE = (0.05, 0.1, 0.2, 0.4)
# Seconds before a catalog that is away is asked again.
PATIENT = (0.5, 1.0, 2.0)
IN_A_RUN = (0.5,)


@dataclass(frozen=True)
class Difference:
    """One way in which a catalog's listing is not what it should be."""

    what: str  # location, schema, snapshot, metadata or topic
    listed: str
    wanted: str


def publish(catalog: PublishingCatalog, load: Load, pauses: Sequence[float] = PATIENT) -> Outcome:
    """Make the catalog list the table as it is now.

    The table is loaded after the catalog's listing: so a listing is never replaced by an older state of
    the table, and of two concurrent publishers the slower one starts over.
    """

    def once_it_answers() -> Outcome:
        return retry_after_pauses(lambda: _publish(catalog, load), pauses, CatalogAway)

    return retry_after_pauses(once_it_answers, AFTER_A_LOST_RACE, ListingChanged)


def _publish(catalog: PublishingCatalog, load: Load) -> Outcome:
    before = load()
    catalog.listing_for(before)  # refuse a name it cannot hold ourselves, with a clear error
    current = catalog.find(before)
    source = load()
    target = catalog.listing_for(source)
    if current is None:
        catalog.ensure_namespace(source)
        catalog.create(source, target)
        return "created"
    refuse_what_is_not_ours(catalog, source, current)
    if current == target:
        return "nothing"
    catalog.replace(source, target, current)
    return "replaced"


def republish(catalog: PublishingCatalog, load: Load, pauses: Sequence[float] = PATIENT) -> Outcome:
    """As `publish`, but an entry of ours for an earlier table of the same topic is dropped first."""
    source = load()
    current = retry_after_pauses(lambda: catalog.find(source), pauses, CatalogAway)
    if current is not None and current.topic == source.topic and current.table_uuid != source.uuid:
        catalog.drop(source, current)
    return publish(catalog, load, pauses)


def unpublish(catalog: PublishingCatalog, source: SourceTable) -> bool:
    """Remove the table from the catalog; its data stays. False: it was not listed."""
    current = retry_after_pauses(lambda: catalog.find(source), PATIENT, CatalogAway)
    if current is None:
        return False
    refuse_what_is_not_ours(catalog, source, current)
    catalog.drop(source, current)
    return True


def differences(current: Listing, target: Listing) -> tuple[Difference, ...]:
    """How the catalog's listing deviates from what it should be; empty if it does not."""
    pairs = [
        ("location", current.location, target.location),
        ("schema", _columns(current), _columns(target)),
        ("snapshot", str(current.snapshot), str(target.snapshot)),
        ("metadata", current.metadata_location, target.metadata_location),
        ("topic", current.topic, target.topic),
    ]
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def refuse_what_is_not_ours(
    catalog: PublishingCatalog, source: SourceTable, current: Listing
) -> None:
    if current.table_uuid == source.uuid:
        return
    if current.topic == source.topic:
        raise NotOurTable(
            f"{catalog.name}: {current.name} shows an earlier table of {source.topic!r}"
            f" (uuid {current.table_uuid}), which this one is not.",
            f"If that one is no longer needed: tableflow catalogs check {source.topic} --repair",
        )
    raise NotOurTable(
        f"{catalog.name}: there is already something called {current.name}, at {current.location}, that"
        " was not published from here. It stays as it is.",
        "Rename or drop it, or publish to another database: see `catalogs:` in tableflow.yaml.",
    )


def _columns(listing: Listing) -> str:
    return ", ".join(
        f"{column.name} {column.type}" + (f" -- {column.comment}" if column.comment else "")
        for column in listing.columns
    )
