"""Unity Catalog: external Delta tables, at Databricks and open-source.

It keeps a table's location and columns, and no snapshot: the location is the pointer, and who reads there
reads the Delta log as it is then. So a commit needs nothing here, and only other columns do. No flavor can
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
from tableflow_assets.publish.unity.errors import UNAUTHORIZED, Asked, Explainer, UnityAnswer
from tableflow_assets.publish.unity.types import listed, unity_columns
from tableflow_assets.settings.catalogs import UnitySettings

T = TypeVar("T")


class UnityCatalog(PublishingCatalog):
    kind = "unity"

    def __init__(self, name: str, settings: UnitySettings) -> None:
        super().__init__(name)
        self.settings = settings
        self.explain = Explainer(name, settings)
        # What a table that is listed anew had been granted, until it has it again.
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

    def wanted(self, source: SourceTable) -> Listing:
        new = self._new(source)
        return Listing(
            name=new.name.full,
            location=new.location,
            columns=tuple(listed(column) for column in new.columns),
            snapshot=source.snapshot,
            table_uuid=source.uuid,
            topic=source.topic,
        )

    def ensure_namespace(self, source: SourceTable) -> None:
        name = self._name(source)
        look = Asked(f"see the schema {name.full_schema}", self.explain.to_look(name))
        try:
            self._ask(lambda: self.api.ask_schema(name.full_schema), look, missing=True)
        except UnityAnswer:
            make = Asked(
                f"create the schema {name.full_schema}", self.explain.to_create_schema(name)
            )
            try:
                self._ask(
                    lambda: self.api.create_schema(name.catalog, name.schema), make, taken=True
                )
            except UnityAnswer:
                return  # somebody else was quicker

    def find(self, source: SourceTable) -> Listing | None:
        name = self._name(source)
        table = self._table(name)
        if table is None:
            return None
        found = self._listing(name, table, source)
        if found.table_uuid == source.uuid:
            self._give_back(name)
        return found

    def create(self, source: SourceTable, wanted: Listing) -> None:
        new = self._new(source)
        asked = Asked(f"create the table {wanted.name}", self.explain.to_create_table(new.name))
        try:
            self._ask(lambda: self.api.create_table(new), asked, taken=True, missing=True)
        except UnityAnswer as answer:
            raise ListingChanged(f"{self.name}: {wanted.name}: {answer}") from None
        self._give_back(new.name)

    def replace(self, source: SourceTable, wanted: Listing, found: Listing) -> None:
        name = self._name(source)
        now = self._unchanged(name, found)
        if self._is_as(wanted, name, now, source):
            return  # only a newer snapshot, which whoever reads at the location sees already
        same_place = now.location == wanted.location
        if same_place and self.settings.warehouse_id and self._synced(name, wanted, source):
            return
        self._list_anew(source, wanted, now)

    def drop(self, source: SourceTable, found: Listing) -> None:
        name = self._name(source)
        if self._table(name) is not None:
            self._unchanged(name, found)
            self._delete(name)

    def probe(self) -> None:
        catalog = self.settings.catalog
        if self.explain.is_databricks:
            catalog = catalog.lower()
        asked = Asked(f"see the catalog {catalog}", self.explain.to_look())
        self._ask(lambda: self.api.ask_catalog(catalog), asked)

    def _synced(self, name: TableName, wanted: Listing, source: SourceTable) -> bool:
        """Let Databricks read the columns from the Delta log: the entry, and what is on it, stay."""
        from tableflow_assets.publish.unity.databricks import DatabricksApi

        warehouse = self.settings.warehouse_id
        if not isinstance(self.api, DatabricksApi) or warehouse is None:
            return False
        run, statement = self.api.run, f"REPAIR TABLE {name.sql} SYNC METADATA"
        asked = Asked(
            f"run {statement}",
            self.explain.to_sync(name),
            if_missing="Check `warehouse_id`: there is no such SQL warehouse, or it is not for us.",
        )
        self._ask(lambda: run(statement, warehouse), asked)
        now = self._table(name)
        return now is not None and self._is_as(wanted, name, now, source)

    def _list_anew(self, source: SourceTable, wanted: Listing, now: UnityTable) -> None:
        """Readers miss it for the moment in between; what was granted on it is granted again."""
        name = self._name(source)
        if now.kept_by_others:
            raise CatalogRefused(
                f"{self.name}: {name.full} has other columns now, but to list it anew would lose"
                f" {' and '.join(now.kept_by_others)}.",
                f"Run on a SQL warehouse: REPAIR TABLE {name.sql} SYNC METADATA; or set `warehouse_id`"
                " under `catalogs:` in tableflow.yaml, and it is run from here.",
            )
        asked = Asked(f"see who may use {name.full}", self.explain.to_change(name))
        grants = self._ask(lambda: self.api.grants(name.full), asked)
        if grants:
            self._owed[name.full] = grants
        self._delete(name)
        self.create(source, wanted)

    def _delete(self, name: TableName) -> None:
        asked = Asked(f"take {name.full} out", self.explain.to_change(name))
        try:
            self._ask(lambda: self.api.delete_table(name.full), asked, missing=True)
        except UnityAnswer:
            return  # it is gone already

    def _give_back(self, name: TableName) -> None:
        if (grants := self._owed.get(name.full)) is None:
            return
        by_hand = " ".join(
            f"GRANT {', '.join(rights)} ON TABLE {name.sql} TO {quoted(who)};"
            for who, rights in grants.items()
        )
        asked = Asked(f"grant again what {name.full} had before its columns changed", by_hand)
        self._ask(lambda: self.api.grant(name.full, grants), asked)
        del self._owed[name.full]

    def _unchanged(self, name: TableName, found: Listing) -> UnityTable:
        """The table, looked at once more: there is no lock, and what is deleted must be ours."""
        now = self._table(name)
        if now is None or now.table_id != found.token or _marks(now) != _marks_of(found):
            raise ListingChanged(f"{self.name}: somebody else has changed {name.full} meanwhile.")
        return now

    def _is_as(
        self, wanted: Listing, name: TableName, now: UnityTable, source: SourceTable
    ) -> bool:
        return replace(self._listing(name, now, source), snapshot=wanted.snapshot) == wanted

    def _table(self, name: TableName) -> UnityTable | None:
        asked = Asked(f"see the table {name.full}", self.explain.to_look(name))
        try:
            return self._ask(lambda: self.api.table(name.full), asked, missing=True)
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
        self, question: Callable[[], T], asked: Asked, *, missing: bool = False, taken: bool = False
    ) -> T:
        """``missing``, ``taken``: the caller knows what to do then, and gets the answer as it is."""
        try:
            try:
                return question()
            except UnityAnswer as answer:
                # A token may expire, or be taken back, while it is in use.
                if answer.status != UNAUTHORIZED or not self.api.forget_token():
                    raise
                return question()
        except UnityAnswer as answer:
            if (missing and answer.is_missing) or (taken and answer.is_taken):
                raise
            raise self.explain.error(answer, asked) from None
        except CatalogAway as error:
            raise CatalogAway(f"{self.name}: {error.problem}", error.next_step) from None
        except SettingsError as error:  # a secret that is not there
            raise CatalogRefused(f"{self.name}: {error.problem}", error.next_step) from None


def _location(source: SourceTable) -> str:
    return (source.delta_location or "").rstrip("/")


def _marks(table: UnityTable) -> tuple[str, str]:
    """Whose it is. A table of another kind is nobody's of us, whatever it has been marked with."""
    if not table.is_external_delta:
        return ("", "")
    return (table.properties.get(UUID_MARK, ""), table.properties.get(TOPIC_MARK, ""))


def _marks_of(found: Listing) -> tuple[str, str]:
    return (found.table_uuid, found.topic)
