"""Unity Catalog: external Delta tables, at Databricks and open-source.

It stores a table's location and columns, and no snapshot: readers go to the location and read the Delta log
as it is then. So nothing has to be published for a commit, only for changed columns. Neither flavor can
change those through its tables API; see docs/catalog-unity.md for what is done instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import TypeVar

from tableflow_assets.base.errors import (
    CatalogAway,
    CatalogRefused,
    ListingChanged,
    SettingsError,
    UnsupportedInDelta,
)
from tableflow_assets.base.sql_names import quoted
from tableflow_assets.publish.base import (
    TOPIC_MARK,
    UUID_MARK,
    Listing,
    PublishingCatalog,
    SourceTable,
)
from tableflow_assets.publish.unity.entry import Grants, NewTable, TableName, UnityApi, UnityTable
from tableflow_assets.publish.unity.errors import UNAUTHORIZED, Explainer, Request, UnityAnswer
from tableflow_assets.publish.unity.types import listed_column, unity_columns
from tableflow_assets.settings.catalogs import UnitySettings

T = TypeVar("T")


class UnityCatalog(PublishingCatalog):
    kind = "unity"

    def __init__(self, name: str, settings: UnitySettings) -> None:
        super().__init__(name)
        self.settings = settings
        self.explain = Explainer(name, settings)
        # The grants of a table that was dropped and created again, until they are restored.
        self._owed: dict[str, Grants] = {}

    @cached_property
    def api(self) -> UnityApi:
        try:
            if self.settings.flavor == "databricks":
                import databricks.sdk  # noqa: F401

                from tableflow_assets.publish.unity.databricks import DatabricksApi

                return DatabricksApi(self.settings)
            import unitycatalog.client  # noqa: F401

            from tableflow_assets.publish.unity.open_source import OpenSourceApi

            return OpenSourceApi(self.settings)
        except ModuleNotFoundError as error:
            raise CatalogRefused(
                f"{self.name}: {error.name} is not installed.",
                "pip install 'tableflow-assets[unity]'",
            ) from None

    def shows(self, source: SourceTable) -> bool:
        return source.delta_location is not None

    def listing_for(self, source: SourceTable) -> Listing:
        new = self._new(source)
        return Listing(
            name=new.name.full,
            location=new.location,
            columns=tuple(listed_column(column) for column in new.columns),
            snapshot=source.snapshot,
            table_uuid=source.uuid,
            topic=source.topic,
        )

    def ensure_namespace(self, source: SourceTable) -> None:
        name = self._name(source)
        lookup = Request(f"see the schema {name.full_schema}", self.explain.to_look(name))
        try:
            self._ask(lambda: self.api.ask_schema(name.full_schema), lookup, expect_missing=True)
        except UnityAnswer:
            creation = Request(
                f"create the schema {name.full_schema}", self.explain.to_create_schema(name)
            )
            try:
                self._ask(
                    lambda: self.api.create_schema(name.catalog, name.schema),
                    creation,
                    expect_taken=True,
                )
            except UnityAnswer:
                return  # somebody else was quicker

    def find(self, source: SourceTable) -> Listing | None:
        name = self._name(source)
        table = self._table(name)
        if table is None:
            return None
        listing = self._listing(name, table, source)
        if listing.table_uuid == source.uuid:
            self._restore_grants(name)
        return listing

    def create(self, source: SourceTable, target: Listing) -> None:
        new = self._new(source)
        request = Request(f"create the table {target.name}", self.explain.to_create_table(new.name))
        try:
            self._ask(
                lambda: self.api.create_table(new), request, expect_taken=True, expect_missing=True
            )
        except UnityAnswer as answer:
            raise ListingChanged(f"{self.name}: {target.name}: {answer}") from None
        self._restore_grants(new.name)

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        name = self._name(source)
        table = self._unchanged(name, current)
        if self._is_as(target, name, table, source):
            return  # only a newer snapshot, which readers at the location already see
        is_at_location = table.location == target.location
        if is_at_location and self.settings.warehouse_id and self._synced(name, target, source):
            return
        self._drop_and_create(source, target, table)

    def drop(self, source: SourceTable, current: Listing) -> None:
        name = self._name(source)
        if self._table(name) is not None:
            self._unchanged(name, current)
            self._delete(name)

    def probe(self) -> None:
        catalog = self.settings.catalog
        if self.explain.is_databricks:
            catalog = catalog.lower()
        request = Request(f"see the catalog {catalog}", self.explain.to_look())
        self._ask(lambda: self.api.ask_catalog(catalog), request)

    def _synced(self, name: TableName, target: Listing, source: SourceTable) -> bool:
        """Have Databricks read the columns from the Delta log: the entry and its grants stay."""
        from tableflow_assets.publish.unity.databricks import DatabricksApi

        warehouse = self.settings.warehouse_id
        if not isinstance(self.api, DatabricksApi) or warehouse is None:
            return False
        run, statement = self.api.run, f"REPAIR TABLE {name.sql} SYNC METADATA"
        request = Request(
            f"run {statement}",
            self.explain.to_sync(name),
            if_missing="Check `warehouse_id`: there is no such SQL warehouse, or we may not use it.",
        )
        self._ask(lambda: run(statement, warehouse), request)
        table = self._table(name)
        return table is not None and self._is_as(target, name, table, source)

    def _drop_and_create(self, source: SourceTable, target: Listing, table: UnityTable) -> None:
        """Readers miss the table for a moment in between; its grants are restored."""
        name = self._name(source)
        if table.kept_by_others:
            raise CatalogRefused(
                f"{self.name}: {name.full} has other columns now, but dropping and listing it again would"
                f" lose {' and '.join(table.kept_by_others)}.",
                f"Run on a SQL warehouse: REPAIR TABLE {name.sql} SYNC METADATA; or set `warehouse_id`"
                " under `catalogs:` in tableflow.yaml, and it is run from here.",
            )
        request = Request(f"see who may use {name.full}", self.explain.to_change(name))
        grants = self._ask(lambda: self.api.grants(name.full), request)
        if grants:
            self._owed[name.full] = grants
        self._delete(name)
        self.create(source, target)

    def _delete(self, name: TableName) -> None:
        request = Request(f"take {name.full} out", self.explain.to_change(name))
        try:
            self._ask(lambda: self.api.delete_table(name.full), request, expect_missing=True)
        except UnityAnswer:
            return  # it is gone already

    def _restore_grants(self, name: TableName) -> None:
        if (grants := self._owed.get(name.full)) is None:
            return
        by_hand = " ".join(
            f"GRANT {', '.join(rights)} ON TABLE {name.sql} TO {quoted(principal)};"
            for principal, rights in grants.items()
        )
        request = Request(f"grant again what {name.full} had before its columns changed", by_hand)
        self._ask(lambda: self.api.grant(name.full, grants), request)
        del self._owed[name.full]

    def _unchanged(self, name: TableName, current: Listing) -> UnityTable:
        """The table, checked once more: there is no lock, and we must only delete our own."""
        table = self._table(name)
        if table is None or table.table_id != current.token or _marks(table) != _marks_of(current):
            raise ListingChanged(f"{self.name}: somebody else has changed {name.full} meanwhile.")
        return table

    def _is_as(
        self, target: Listing, name: TableName, table: UnityTable, source: SourceTable
    ) -> bool:
        return replace(self._listing(name, table, source), snapshot=target.snapshot) == target

    def _table(self, name: TableName) -> UnityTable | None:
        request = Request(f"see the table {name.full}", self.explain.to_look(name))
        try:
            return self._ask(lambda: self.api.table(name.full), request, expect_missing=True)
        except UnityAnswer:
            return None

    def _listing(self, name: TableName, table: UnityTable, source: SourceTable) -> Listing:
        is_there = table.location == _location(source)
        uuid, topic = _marks(table)
        return Listing(
            name=name.full,
            location=table.location,
            columns=table.columns,
            snapshot=source.snapshot if is_there else None,
            table_uuid=uuid,
            topic=topic,
            token=table.table_id,
        )

    def _name(self, source: SourceTable) -> TableName:
        return TableName.of(self.settings, source.namespace, source.name)

    def _new(self, source: SourceTable) -> NewTable:
        name = self._name(source)
        try:
            columns = unity_columns(source.schema)
        except UnsupportedInDelta as error:
            raise CatalogRefused(f"{self.name}: {error.problem}", error.next_step) from None
        marks = {UUID_MARK: source.uuid, TOPIC_MARK: source.topic}
        return NewTable(name, _location(source), columns, marks, source.description)

    def _ask(
        self,
        question: Callable[[], T],
        request: Request,
        *,
        expect_missing: bool = False,
        expect_taken: bool = False,
    ) -> T:
        """``expect_missing``, ``expect_taken``: the caller handles that answer, which is raised as it is."""
        try:
            try:
                return question()
            except UnityAnswer as answer:
                # A token may expire, or be revoked, while it is in use.
                if answer.status != UNAUTHORIZED or not self.api.forget_token():
                    raise
                return question()
        except UnityAnswer as answer:
            if (expect_missing and answer.is_missing) or (expect_taken and answer.is_taken):
                raise
            raise self.explain.error(answer, request) from None
        except CatalogAway as error:
            raise CatalogAway(f"{self.name}: {error.problem}", error.next_step) from None
        except SettingsError as error:  # a missing secret
            raise CatalogRefused(f"{self.name}: {error.problem}", error.next_step) from None


def _location(source: SourceTable) -> str:
    return (source.delta_location or "").rstrip("/")


def _marks(table: UnityTable) -> tuple[str, str]:
    """Our table's uuid and topic. A table of another type is never ours, whatever its properties say."""
    if not table.is_external_delta:
        return ("", "")
    return (table.properties.get(UUID_MARK, ""), table.properties.get(TOPIC_MARK, ""))


def _marks_of(listing: Listing) -> tuple[str, str]:
    return (listing.table_uuid, listing.topic)
