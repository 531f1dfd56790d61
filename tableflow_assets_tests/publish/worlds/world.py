"""What the behaviour suite needs of a catalog's world, whatever kind of catalog it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar, Literal

from tableflow_assets.publish.base import PublishingCatalog, SourceTable

Tampered = Literal["location", "schema", "snapshot"]


class CatalogWorld(ABC):
    """A catalog's server, and what can go wrong with it."""

    # Whether the catalog refuses a change of what has changed since it was looked at.
    has_lock: ClassVar[bool] = True
    # What of a listing the catalog keeps by itself; the rest follows from something else that it keeps.
    can_tamper: ClassVar[tuple[Tampered, ...]] = ("location", "schema", "snapshot")

    @abstractmethod
    def catalog(self) -> PublishingCatalog:
        """A new client of the right credentials."""

    @abstractmethod
    def with_wrong_credentials(self) -> PublishingCatalog: ...

    @abstractmethod
    def without_right_to_create(self) -> PublishingCatalog:
        """Right credentials that may read, and not create a database or table."""

    @abstractmethod
    def make_foreign_table(self, source: SourceTable) -> None:
        """Put something under the name that the source's listing would have, past our code."""

    @abstractmethod
    def foreign_table_is_untouched(self, source: SourceTable) -> bool: ...

    @abstractmethod
    def tamper(self, source: SourceTable, what: Tampered) -> None:
        """Change a published listing past our code, in one of the ways that `check` tells apart."""

    @abstractmethod
    def writes(self) -> int:
        """How many changes of tables the server has carried out so far."""

    @abstractmethod
    def is_down(self) -> AbstractContextManager[None]:
        """The server answers every request with an error of its own (500, 503)."""

    @abstractmethod
    def is_gone(self) -> AbstractContextManager[None]:
        """Nobody listens at the server's address."""
