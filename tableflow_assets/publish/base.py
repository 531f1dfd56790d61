"""What all catalogs that tables are published to have in common.

Every catalog describes a table in the same shape, a `Listing`: what it lists now, and what it should list
given the table as its owner has it. Publishing, checking and dropping are then the same for all of them
(`publish.py`), and a catalog's own module only translates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from pyiceberg.schema import Schema

from tableflow_assets.settings.blocks import Format

# Table properties, or the nearest thing a catalog has, that mark an entry as ours.
UUID_MARK = "tableflow.table_uuid"
TOPIC_MARK = "tableflow.topic"
SNAPSHOT_MARK = "tableflow.snapshot_id"


@dataclass(frozen=True)
class SourceTable:
    """A table as the catalog that owns it has it at this moment."""

    name: str
    topic: str  # or the product, if the table is a product's
    uuid: str
    cluster_id: str  # of the Kafka cluster that its rows come from
    namespace: str
    formats: tuple[Format, ...]
    schema: Schema
    location: str
    metadata_location: str  # Iceberg's metadata file
    snapshot: int | None
    delta_location: str | None = None  # None: not a Delta table
    description: str = ""


@dataclass(frozen=True)
class ListedColumn:
    name: str
    type: str  # as the catalog spells it
    comment: str = ""


@dataclass(frozen=True)
class Listing:
    """What a catalog says, or should say, about one table."""

    name: str  # qualified by database or schema, as people look it up
    location: str
    columns: tuple[ListedColumn, ...]
    snapshot: int | None
    metadata_location: str = ""  # only if the catalog stores it: Iceberg tables
    table_uuid: str = ""  # of the table of ours that it shows; "" if it shows something else
    topic: str = ""
    # Handed back to the catalog with a change, so that it can detect a concurrent one.
    token: object = field(default=None, compare=False, repr=False)


class PublishingCatalog(ABC):
    """One catalog of the settings.

    Every call may raise `CatalogAway` (worth another try) or `CatalogRefused` (somebody has to grant or
    change something, and the error says what); no other error is expected. No call takes longer than a few
    seconds: a catalog that hangs must not hold up a run.
    """

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name  # in the settings

    @abstractmethod
    def shows(self, source: SourceTable) -> bool:
        """Whether the catalog can show a table of these formats at all."""

    @abstractmethod
    def listing_for(self, source: SourceTable) -> Listing:
        """What it should list; makes no request. Raises `CatalogRefused` for a name it cannot hold."""

    @abstractmethod
    def ensure_namespace(self, source: SourceTable) -> None:
        """Create the database or schema that `listing_for` names, unless it exists."""

    @abstractmethod
    def find(self, source: SourceTable) -> Listing | None:
        """What it lists under that name now; None if there is nothing, or no namespace."""

    @abstractmethod
    def create(self, source: SourceTable, target: Listing) -> None:
        """List the table. Raises `ListingChanged` if somebody else has just created that name."""

    @abstractmethod
    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        """List `target` in place of `current`, which is ours; `ListingChanged` if it no longer is."""

    @abstractmethod
    def drop(self, source: SourceTable, current: Listing) -> None:
        """Stop listing the table; its data stays. Not an error if it is gone already."""

    @abstractmethod
    def probe(self) -> None:
        """One cheap request that shows whether address and credentials are right."""
