"""Publishing to any catalog: in order, once, and never over what is not ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tableflow_assets.base.errors import CatalogAway, ListingChanged, NotOurTable
from tableflow_assets.base.retry import retry_after_pauses
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable

Done = Literal["nothing", "created", "replaced"]
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


def publish(catalog: PublishingCatalog, load: Load, pauses: Sequence[float] = PATIENT) -> Done:
    """Let the catalog list the table as it is now.

    The table is loaded after the catalog was asked what it lists: so what replaces a listing is never
    older than what made it, and of two who publish at once the later one looks again.
    """

    def once_it_answers() -> Done:
        return retry_after_pauses(lambda: _publish(catalog, load), pauses, CatalogAway)

    return retry_after_pauses(once_it_answers, AFTER_A_LOST_RACE, ListingChanged)


def _publish(catalog: PublishingCatalog, load: Load) -> Done:
    before = load()
    catalog.wanted(before)  # a name that it cannot have is refused by us, in our words
    found = catalog.find(before)
    source = load()
    wanted = catalog.wanted(source)
    if found is None:
        catalog.ensure_namespace(source)
        catalog.create(source, wanted)
        return "created"
    refuse_what_is_not_ours(catalog, source, found)
    if found == wanted:
        return "nothing"
    catalog.replace(source, wanted, found)
    return "replaced"


def republish(catalog: PublishingCatalog, load: Load, pauses: Sequence[float] = PATIENT) -> Done:
    """As `publish`; an entry of ours for an earlier table of the same topic is replaced as a whole."""
    source = load()
    found = retry_after_pauses(lambda: catalog.find(source), pauses, CatalogAway)
    if found is not None and found.topic == source.topic and found.table_uuid != source.uuid:
        catalog.drop(source, found)
    return publish(catalog, load, pauses)


def unpublish(catalog: PublishingCatalog, source: SourceTable) -> bool:
    """Take the table out of the catalog; its data stays. False: it was not there."""
    found = retry_after_pauses(lambda: catalog.find(source), PATIENT, CatalogAway)
    if found is None:
        return False
    refuse_what_is_not_ours(catalog, source, found)
    catalog.drop(source, found)
    return True


def compared(found: Listing, wanted: Listing) -> tuple[Difference, ...]:
    """What the catalog says that is not so; empty where all of it is."""
    pairs = [
        ("location", found.location, wanted.location),
        ("schema", _columns(found), _columns(wanted)),
        ("snapshot", str(found.snapshot), str(wanted.snapshot)),
        ("metadata", found.metadata_location, wanted.metadata_location),
        ("topic", found.topic, wanted.topic),
    ]
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def refuse_what_is_not_ours(
    catalog: PublishingCatalog, source: SourceTable, found: Listing
) -> None:
    if found.table_uuid == source.uuid:
        return
    if found.topic == source.topic:
        raise NotOurTable(
            f"{catalog.name}: {found.name} shows an earlier table of {source.topic!r}"
            f" (uuid {found.table_uuid}), which this one is not.",
            f"If that one is no longer needed: tableflow catalogs check {source.topic} --repair",
        )
    raise NotOurTable(
        f"{catalog.name}: there is already something called {found.name}, at {found.location}, that"
        " was not published from here. It stays as it is.",
        "Rename or drop it, or publish to another database: see `catalogs:` in tableflow.yaml.",
    )


def _columns(listing: Listing) -> str:
    return ", ".join(
        f"{column.name} {column.type}" + (f" -- {column.comment}" if column.comment else "")
        for column in listing.columns
    )
