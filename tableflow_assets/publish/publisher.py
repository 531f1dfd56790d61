"""The tables in other people's catalogs: publish, look, mend, take away.

What a catalog shows is asked of the catalog itself. So there is no state to lose, and what one catalog
has wrong never keeps a table, or another catalog, from going on.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import time

from pyiceberg.table import Table
from pyiceberg.table.snapshots import ancestors_of

from tableflow_assets.base.errors import LedgerError, TableflowError
from tableflow_assets.base.files import replace_file
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable
from tableflow_assets.publish.factory import made
from tableflow_assets.publish.source import source_of
from tableflow_assets.publish.status import (
    CatalogStatus,
    failed,
    not_of_its_format,
    nothing_to_show,
)
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

# By those that a reader's catalog gets its own knowledge from: Snowflake reads Glue, or a REST catalog.
LAST = ("snowflake",)


class Publisher:
    """Of all catalogs in the settings. Holds connections, no state."""

    def __init__(self, settings: Settings, owner: RestCatalog) -> None:
        self.settings = settings
        self.owner = owner

    @cached_property
    def catalogs(self) -> tuple[PublishingCatalog, ...]:
        blocks = self.settings.catalogs.items()
        found = [made(name, block, self.owner.storage) for name, block in blocks]
        return tuple(sorted(found, key=lambda one: one.kind in LAST))

    def catalogs_of(
        self, topic: ManagedTable, only: str | None = None
    ) -> tuple[PublishingCatalog, ...]:
        """Those that the settings want the topic's table in; of these, only the one asked for."""
        wanted = (one for one in self.catalogs if topic.is_shown_in(one.name))
        return tuple(one for one in wanted if only in (None, one.name))

    def publish(
        self, topic: ManagedTable, *, patient: bool = False, only: str | None = None
    ) -> list[CatalogStatus]:
        """Let every catalog of the topic show its table as it is now; raises nothing of theirs.

        ``patient``: ask a catalog that is away again and again, for some seconds. A run of the table
        has better things to do: the sensor comes back to what is behind.
        """
        pauses = publishing.PATIENT if patient else publishing.IN_A_RUN

        def act(catalog: PublishingCatalog) -> CatalogStatus:
            return self._done(
                catalog, topic, lambda load: publishing.publish(catalog, load, pauses)
            )

        return self._of_each(self.catalogs_of(topic, only), act)

    def look(self, topic: ManagedTable, *, only: str | None = None) -> list[CatalogStatus]:
        """What every catalog of the topic shows. Changes nothing."""
        return self._of_each(self.catalogs_of(topic, only), lambda one: self._looked(one, topic))

    def repair(self, topic: ManagedTable) -> list[CatalogStatus]:
        """As `publish`, patiently; what shows an earlier table of the topic is replaced, too."""

        def mend(catalog: PublishingCatalog) -> CatalogStatus:
            return self._done(
                catalog, topic, lambda load: publishing.republish(catalog, load, publishing.PATIENT)
            )

        return self._of_each(self.catalogs_of(topic), mend)

    def not_told(self, topic: ManagedTable, table: Table) -> list[str]:
        """A hint, for the sensor: the catalogs that were not told of the table as it is now."""
        told = table.metadata_location
        chosen = self.catalogs_of(topic)
        return [one.name for one in chosen if _read(self._mark(one, topic.table)) != told]

    def unwanted(self, topics: Sequence[ManagedTable]) -> list[CatalogStatus]:
        """What is shown, and should not be: tables that are in no settings, or not for that catalog."""
        wanted = {(c.name, topic.table) for topic in topics for c in self.catalogs_of(topic)}
        found = []
        for name in self.owner.tables():
            asked = [one for one in self.catalogs if (one.name, name) not in wanted]
            source = self._source_if_ours(name) if asked else None
            if source is None:
                continue
            standings = [self._shown(one, source) for one in asked if one.shows(source)]
            # Of what was never ours nothing is said, nor of a catalog that cannot be asked now.
            found += [one for one in standings if one.listed_as]
        return found

    def unpublish(self, standing: CatalogStatus) -> None:
        """Take a table out of a catalog. Its data, and the owner's table, stay."""
        catalog = next(one for one in self.catalogs if one.name == standing.catalog)
        source = self.source(standing.table)
        if source is not None:
            with self._alone(catalog, standing.table):
                publishing.unpublish(catalog, source)
                self._mark(catalog, standing.table).unlink(missing_ok=True)

    def source(self, table: str, description: str = "") -> SourceTable | None:
        found = self.owner.find(table)
        if found is None or found.current_snapshot() is None:
            return None
        return source_of(self.owner, found, description)

    def _source_if_ours(self, table: str) -> SourceTable | None:
        """None also for what is no topic's table: dead letters, and what others keep there."""
        try:
            return self.source(table)
        except LedgerError:
            return None

    def _of_each(
        self, chosen: Sequence[PublishingCatalog], act: Callable[[PublishingCatalog], CatalogStatus]
    ) -> list[CatalogStatus]:
        """At the same time, but for those that learn from others."""
        early = [one for one in chosen if one.kind not in LAST]
        late = [one for one in chosen if one.kind in LAST]
        found: list[CatalogStatus] = []
        for group in (early, late):
            if group:
                with ThreadPoolExecutor(len(group)) as pool:
                    found += pool.map(act, group)
        return found

    def _done(
        self,
        catalog: PublishingCatalog,
        topic: ManagedTable,
        act: Callable[[publishing.Load], object],
    ) -> CatalogStatus:
        published: list[SourceTable] = []

        def load() -> SourceTable:
            source = self.source(topic.table, topic.description or "")
            if source is None:
                raise TableflowError(f"{topic.table} is gone from the catalog that owns it.")
            published.append(source)
            return source

        blank = CatalogStatus(catalog.name, catalog.kind, topic.table, topic.name, "pending")
        try:
            source = self.source(topic.table)
            if source is None:
                return nothing_to_show(blank, "There is no table yet.")
            if not catalog.shows(source):
                self._remember(catalog, source)
                return not_of_its_format(blank, source)
            with self._alone(catalog, topic.table):
                act(load)
                told = published[-1]
                self._remember(catalog, told)
        except Exception as error:  # the table is committed, whatever happens here
            return failed(blank, error)
        return replace(
            blank,
            state="connected",
            listed_as=catalog.wanted(told).name,
            snapshot=told.snapshot,
        )

    def _looked(self, catalog: PublishingCatalog, topic: ManagedTable) -> CatalogStatus:
        blank = CatalogStatus(catalog.name, catalog.kind, topic.table, topic.name, "pending")
        try:
            source = self.source(topic.table, topic.description or "")
        except TableflowError as error:
            return failed(blank, error)
        if source is None:
            return nothing_to_show(blank, "There is no table yet.")
        if not catalog.shows(source):
            return not_of_its_format(blank, source)
        return self._shown(catalog, source)

    def _shown(self, catalog: PublishingCatalog, source: SourceTable) -> CatalogStatus:
        blank = CatalogStatus(catalog.name, catalog.kind, source.name, source.topic, "pending")
        try:
            found, wanted = catalog.find(source), catalog.wanted(source)
            if found is None:
                return replace(blank, reason="It is not published yet.")
            publishing.refuse_what_is_not_ours(catalog, source, found)
        except Exception as error:  # the other catalogs want to be shown, too
            return failed(blank, error)
        different = publishing.compared(found, wanted)
        listed = replace(
            blank, listed_as=found.name, snapshot=found.snapshot, differences=different
        )
        if wrong := [one.what for one in different if one.what not in ("snapshot", "metadata")]:
            return replace(
                listed,
                state="failed",
                reason=f"It shows another {' and '.join(wrong)} than the table has.",
                next_step=f"tableflow catalogs check {source.topic} --repair",
            )
        behind, lag = self._lag(source, found) if different else (0, 0.0)
        return replace(listed, state="connected", behind=behind, lag_seconds=lag)

    def _lag(self, source: SourceTable, found: Listing) -> tuple[int, float]:
        """How many snapshots are not shown yet, and for how long the oldest of them has been there."""
        table = self.owner.find(source.name)
        head = table.current_snapshot() if table else None
        missing = []
        for snapshot in ancestors_of(head, table.metadata) if head and table else ():
            if snapshot.snapshot_id == found.snapshot:
                break
            missing.append(snapshot)
        # None: the same rows under newer metadata, such as a column that nobody has filled yet.
        if not missing:
            return 1, 0.0
        return len(missing), max(0.0, time() - missing[-1].timestamp_ms / 1000)

    @contextmanager
    def _alone(self, catalog: PublishingCatalog, table: str) -> Iterator[None]:
        """Not every catalog refuses an outdated change: so on this machine one comes after the other."""
        file = self._mark(catalog, table).with_suffix(".lock")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _remember(self, catalog: PublishingCatalog, told: SourceTable) -> None:
        replace_file(self._mark(catalog, told.name), told.metadata_location.encode())

    def _mark(self, catalog: PublishingCatalog, table: str) -> Path:
        return self.settings.state_dir / "published" / catalog.name / table


def _read(mark: Path) -> str:
    try:
        return mark.read_text()
    except OSError:
        return ""
