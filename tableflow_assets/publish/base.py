"""What all catalogs have in common that tables are published to.

A catalog says what it lists of a table, in one shape for all of them: a `Listing`. It also says what it
should list, given the table as its owner has it. Publishing, checking and dropping are then the same for
all (`publish.py`), and a catalog's own file only speaks its language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from pyiceberg.schema import Schema

from tableflow_assets.settings.blocks import Format

# How a catalog's entry says whose it is: whatever it calls its table properties.
UUID_MARK = "tableflow.table_uuid"
TOPIC_MARK = "tableflow.topic"
SNAPSHOT_MARK = "tableflow.snapshot_id"


@dataclass(frozen=True)
class SourceTable:
    """A table as the catalog that owns it has it at this moment."""

    name: str
    topic: str  # or the product that it is the table of
    uuid: str
    cluster_id: str  # of the Kafka cluster that its rows come from
    namespace: str
    formats: tuple[Format, ...]
    schema: Schema
    location: str
    metadata_location: str  # Iceberg's metadata file
    snapshot: int | None
    delta_location: str | None = None  # None: it is not kept as Delta
    description: str = ""


@dataclass(frozen=True)
class ListedColumn:
    name: str
    type: str  # in the catalog's own words
    comment: str = ""


@dataclass(frozen=True)
class Listing:
    """What a catalog says, or should say, of one table."""

    name: str  # with its database or schema: where people find it
    location: str
    columns: tuple[ListedColumn, ...]
    snapshot: int | None
    metadata_location: str = ""  # only where the catalog keeps it: Iceberg tables
    table_uuid: str = ""  # of our table that it shows; "" where it shows something else
    topic: str = ""
    # What the catalog wants to see again, so that it can refuse a change of what has changed since.
    token: object = field(default=None, compare=False, repr=False)


class PublishingCatalog(ABC):
    """One catalog of the settings.

    Every call may raise `CatalogAway` (worth another try) or `CatalogRefused` (somebody has to grant or
    change something, and the error says what); nothing else that is foreseeable. No call takes longer than
    some seconds: a catalog that hangs must not hold up a run.
    """

    kind: ClassVar[str]

    def __init__(self, name: str) -> None:
        self.name = name  # in the settings

    @abstractmethod
    def shows(self, source: SourceTable) -> bool:
        """Whether it can show the table at all, by its formats."""

    @abstractmethod
    def wanted(self, source: SourceTable) -> Listing:
        """What it should list. Asks nobody. Raises `CatalogRefused` for a name that it cannot have."""

    @abstractmethod
    def ensure_namespace(self, source: SourceTable) -> None:
        """The database or schema that `wanted` names is there."""

    @abstractmethod
    def find(self, source: SourceTable) -> Listing | None:
        """What it lists under the name of `wanted` now; None where there is nothing, or no namespace."""

    @abstractmethod
    def create(self, source: SourceTable, wanted: Listing) -> None:
        """List it. Raises `ListingChanged` where somebody else has made one of that name meanwhile."""

    @abstractmethod
    def replace(self, source: SourceTable, wanted: Listing, found: Listing) -> None:
        """List `wanted` in place of `found`, which is ours. Raises `ListingChanged` if it no longer is."""

    @abstractmethod
    def drop(self, source: SourceTable, found: Listing) -> None:
        """No longer list it; its data stays. What is gone already is no error."""

    @abstractmethod
    def probe(self) -> None:
        """One cheap question that shows whether address and credentials are right."""
