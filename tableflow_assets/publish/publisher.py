"""The tables in other people's catalogs: publish, inspect, repair, remove.

What a catalog shows is read from the catalog itself, so there is no state to lose. A catalog that fails
never holds up a table or another catalog.
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

from tableflow_assets.base.errors import LedgerError, NewerFormat, TableflowError
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.publish import publish as publishing
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable
from tableflow_assets.publish.factory import catalog_from
from tableflow_assets.publish.marks import mark_of, read_mark, write_mark
from tableflow_assets.publish.source import source_of
from tableflow_assets.publish.status import (
    CatalogStatus,
    failure_of,
    not_of_its_format,
    nothing_to_show,
)
from tableflow_assets.settings.managed_table import ManagedTable
from tableflow_assets.settings.settings import Settings

# Published to after the others, which they may read from: Snowflake reads Glue, or a REST catalog.
LAST = ("snowflake",)


class Publisher:
    """Publishes to all catalogs in the settings. Holds connections, no state."""

    def __init__(self, settings: Settings, owner: RestCatalog) -> None:
        self.settings = settings
        self.owner = owner

    @cached_property
    def catalogs(self) -> tuple[PublishingCatalog, ...]:
        blocks = self.settings.catalogs.items()
        catalogs = [catalog_from(name, block, self.owner.storage) for name, block in blocks]
        return tuple(sorted(catalogs, key=lambda catalog: catalog.kind in LAST))

    def catalogs_of(
        self, topic: ManagedTable, only: str | None = None
    ) -> tuple[PublishingCatalog, ...]:
        """The catalogs that should show the topic's table; with ``only``, at most the one of that name."""
        chosen = (catalog for catalog in self.catalogs if topic.is_shown_in(catalog.name))
        return tuple(catalog for catalog in chosen if only in (None, catalog.name))

    def is_shown(self, topic: ManagedTable) -> bool:
        """Whether any other catalog should show the topic's table. Connects to none."""
        return any(map(topic.is_shown_in, self.settings.catalogs))

    def publish(
        self, topic: ManagedTable, *, patient: bool = False, only: str | None = None
    ) -> list[CatalogStatus]:
        """Make every catalog of the topic show its table as it is now; a catalog's errors are not raised.

        ``patient``: retry a catalog that is away for a few seconds. A run of the table should not wait
        for that: the sensor comes back to catalogs that are behind.
        """
        pauses = publishing.PATIENT if patient else publishing.IN_A_RUN

        def act(catalog: PublishingCatalog) -> CatalogStatus:
            return self._attempt(
                catalog, topic, lambda load: publishing.publish(catalog, load, pauses)
            )

        return self._on_each(self.catalogs_of(topic, only), act)

    def look(self, topic: ManagedTable, *, only: str | None = None) -> list[CatalogStatus]:
        """What every catalog of the topic shows. Changes nothing."""
        return self._on_each(
            self.catalogs_of(topic, only), lambda catalog: self._look_at(catalog, topic)
        )

    def repair(self, topic: ManagedTable) -> list[CatalogStatus]:
        """As a patient `publish`; entries for an earlier table of the topic are replaced, too."""

        def mend(catalog: PublishingCatalog) -> CatalogStatus:
            return self._attempt(
                catalog, topic, lambda load: publishing.republish(catalog, load, publishing.PATIENT)
            )

        return self._on_each(self.catalogs_of(topic), mend)

    def not_told(self, topic: ManagedTable, table: Table) -> list[str]:
        """A hint for the sensor: the catalogs to which the table's current state was not published."""
        newest = table.metadata_location
        catalogs = self.catalogs_of(topic)
        return [
            catalog.name
            for catalog in catalogs
            if read_mark(self._mark(catalog, topic.table)) != newest
        ]

    def unwanted(self, topics: Sequence[ManagedTable]) -> list[CatalogStatus]:
        """Tables that a catalog shows and should not: not in the settings, or not for that catalog."""
        expected = {(c.name, topic.table) for topic in topics for c in self.catalogs_of(topic)}
        unwanted = []
        for name in self.owner.tables():
            unexpected = [
                catalog for catalog in self.catalogs if (catalog.name, name) not in expected
            ]
            source = self._source_if_ours(name) if unexpected else None
            if source is None:
                continue
            statuses = [
                self._compare(catalog, source) for catalog in unexpected if catalog.shows(source)
            ]
            # Entries that were never ours stay out of it, as do catalogs that do not answer.
            unwanted += [status for status in statuses if status.listed_as]
        return unwanted

    def unpublish(self, status: CatalogStatus) -> None:
        """Remove a table from a catalog. Its data, and the owner's table, stay."""
        catalog = next(candidate for candidate in self.catalogs if candidate.name == status.catalog)
        source = self.source(status.table)
        if source is not None:
            with self._alone(catalog, status.table):
                publishing.unpublish(catalog, source)
                self._mark(catalog, status.table).unlink(missing_ok=True)

    def source(self, table: str, description: str = "") -> SourceTable | None:
        owned = self.owner.find(table)
        if owned is None or owned.current_snapshot() is None:
            return None
        return source_of(self.owner, owned, description)

    def _source_if_ours(self, table: str) -> SourceTable | None:
        """None also for other tables: dead letters, somebody else's, and those of a newer version of ours."""
        try:
            return self.source(table)
        except (LedgerError, NewerFormat):
            return None

    def _on_each(
        self,
        catalogs: Sequence[PublishingCatalog],
        act: Callable[[PublishingCatalog], CatalogStatus],
    ) -> list[CatalogStatus]:
        """Concurrently; catalogs that read from others come last."""
        early = [catalog for catalog in catalogs if catalog.kind not in LAST]
        late = [catalog for catalog in catalogs if catalog.kind in LAST]
        statuses: list[CatalogStatus] = []
        for group in (early, late):
            if group:
                with ThreadPoolExecutor(len(group)) as pool:
                    statuses += pool.map(act, group)
        return statuses

    def _attempt(
        self,
        catalog: PublishingCatalog,
        topic: ManagedTable,
        act: Callable[[publishing.Load], object],
    ) -> CatalogStatus:
        loaded: list[SourceTable] = []

        def load() -> SourceTable:
            source = self.source(topic.table, topic.description or "")
            if source is None:
                raise TableflowError(f"{topic.table} is gone from the catalog that owns it.")
            loaded.append(source)
            return source

        blank = CatalogStatus(catalog.name, catalog.kind, topic.table, topic.name, "pending")
        try:
            source = self.source(topic.table)
            if source is None:
                return nothing_to_show(blank, "There is no table yet.")
            if not catalog.shows(source):
                self._record(catalog, source)
                return not_of_its_format(blank, source)
            with self._alone(catalog, topic.table):
                act(load)
                latest = loaded[-1]
                self._record(catalog, latest)
        except Exception as error:  # the commit stands, whatever happens here
            return failure_of(blank, error)
        return replace(
            blank,
            state="connected",
            listed_as=catalog.listing_for(latest).name,
            snapshot=latest.snapshot,
        )

    def _look_at(self, catalog: PublishingCatalog, topic: ManagedTable) -> CatalogStatus:
        blank = CatalogStatus(catalog.name, catalog.kind, topic.table, topic.name, "pending")
        try:
            source = self.source(topic.table, topic.description or "")
        except Exception as error:  # the other tables are still to be reported
            return failure_of(blank, error)
        if source is None:
            return nothing_to_show(blank, "There is no table yet.")
        if not catalog.shows(source):
            return not_of_its_format(blank, source)
        return self._compare(catalog, source)

    def _compare(self, catalog: PublishingCatalog, source: SourceTable) -> CatalogStatus:
        blank = CatalogStatus(catalog.name, catalog.kind, source.name, source.topic, "pending")
        try:
            current, target = catalog.find(source), catalog.listing_for(source)
            if current is None:
                return replace(blank, reason="It is not published yet.")
            publishing.refuse_what_is_not_ours(catalog, source, current)
        except Exception as error:  # the other catalogs are still to be reported
            return failure_of(blank, error)
        differences = publishing.differences(current, target)
        status = replace(
            blank, listed_as=current.name, snapshot=current.snapshot, differences=differences
        )
        kinds = [difference.what for difference in differences]
        if wrong := [kind for kind in kinds if kind not in ("snapshot", "metadata")]:
            return replace(
                status,
                state="failed",
                reason=f"It shows another {' and '.join(wrong)} than the table has.",
                next_step=f"tableflow catalogs check {source.topic} --repair",
            )
        behind, lag = self._lag(source, current) if differences else (0, 0.0)
        return replace(status, state="connected", behind=behind, lag_seconds=lag)

    def _lag(self, source: SourceTable, current: Listing) -> tuple[int, float]:
        """How many snapshots are not shown yet, and the age in seconds of the oldest of them."""
        table = self.owner.find(source.name)
        head = table.current_snapshot() if table else None
        unseen = []
        for snapshot in ancestors_of(head, table.metadata) if head and table else ():
            if snapshot.snapshot_id == current.snapshot:
                break
            unseen.append(snapshot)
        # The same rows under newer metadata, such as a column that nobody has filled yet.
        if not unseen:
            return 1, 0.0
        return len(unseen), max(0.0, time() - unseen[-1].timestamp_ms / 1000)

    @contextmanager
    def _alone(self, catalog: PublishingCatalog, table: str) -> Iterator[None]:
        """Not every catalog detects concurrent changes, so publishers on this machine take turns."""
        file = self._mark(catalog, table).with_suffix(".lock")
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _record(self, catalog: PublishingCatalog, source: SourceTable) -> None:
        write_mark(self._mark(catalog, source.name), source.metadata_location)

    def _mark(self, catalog: PublishingCatalog, table: str) -> Path:
        return mark_of(self.settings.state_dir, catalog.name, table)
