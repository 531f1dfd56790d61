"""AWS Glue's Data Catalog: Iceberg and Delta tables for Athena, EMR, Redshift and others."""

from __future__ import annotations

import re
from typing import Any

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged
from tableflow_assets.publish.base import Listing, PublishingCatalog, SourceTable
from tableflow_assets.publish.glue.aws import Aws, Expected
from tableflow_assets.publish.glue.table import listed_columns, listing_of, table_input
from tableflow_assets.publish.glue.types import MAX_NAME, cut, glue_columns
from tableflow_assets.settings.blocks import Format
from tableflow_assets.settings.catalogs import GlueSettings

CLUSTER_MARK = "tableflow.cluster_id"
_MISSING = "EntityNotFoundException"
_THERE_ALREADY = "AlreadyExistsException"
_CHANGED = "ConcurrentModificationException"
_DENIED = ("AccessDenied", "AccessDeniedException")


class GlueCatalog(PublishingCatalog):
    kind = "glue"

    def __init__(self, name: str, settings: GlueSettings) -> None:
        super().__init__(name)
        self.settings = settings
        self._aws = Aws(name, settings)

    def shows(self, source: SourceTable) -> bool:
        return _shown_as(source, self.settings.format) is not None

    def listing_for(self, source: SourceTable) -> Listing:
        is_delta = self._format(source) == "delta"
        return Listing(
            name=f"{self._database(source)}.{self._table(source)}",
            location=(source.delta_location or "") if is_delta else source.location,
            columns=listed_columns(glue_columns(source.schema)),
            snapshot=source.snapshot,
            metadata_location="" if is_delta else source.metadata_location,
            table_uuid=source.uuid,
            topic=source.topic,
        )

    def ensure_namespace(self, source: SourceTable) -> None:
        database = self._database(source)
        try:
            answer = self._get_entity("Database", "get_database", Name=database)
        except Expected:
            self._create_database(database, source.cluster_id)
            return
        owner = (answer.get("Parameters") or {}).get(CLUSTER_MARK, source.cluster_id)
        if owner != source.cluster_id and self.settings.database is None:
            raise CatalogRefused(
                f"{self.name}: the database {database} holds the tables of the Kafka cluster {owner};"
                f" by Glue's rules for names, {source.cluster_id} would have the same one.",
                f"Name another one: `database:` of {self.name} under `catalogs:` in tableflow.yaml.",
            )

    def find(self, source: SourceTable) -> Listing | None:
        table = self._get(source)
        return listing_of(self._database(source), table) if table else None

    def create(self, source: SourceTable, target: Listing) -> None:
        table = table_input(source, target, self._format(source))
        try:
            self._glue(
                "create_table",
                DatabaseName=self._database(source),
                TableInput=table,
                expected=(_THERE_ALREADY, _MISSING),
            )
        except Expected as error:
            how = "its database is gone" if error.code == _MISSING else "somebody else created it"
            raise self._changed(target.name, f"{how} just now") from error

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        before = _table_of(current)
        try:
            self._glue(
                "update_table",
                DatabaseName=self._database(source),
                TableInput=table_input(source, target, self._format(source), before),
                VersionId=before["VersionId"],  # Glue refuses where there is a newer one
                SkipArchive=True,  # old versions count towards a quota, and nobody needs them
                expected=(_CHANGED, _MISSING),
            )
        except Expected as error:
            raise self._changed(target.name, "somebody else has changed it") from error

    def drop(self, source: SourceTable, current: Listing) -> None:
        """Glue deletes whatever has that name, in any version; so check just before."""
        table = self._get(source)
        if table is None:
            return
        now = listing_of(self._database(source), table)
        if (now.table_uuid, now.topic) != (current.table_uuid, current.topic):
            raise self._changed(current.name, "it shows another table now, and stays")
        place = {"DatabaseName": self._database(source), "Name": self._table(source)}
        try:
            self._glue("delete_table", **place, expected=(_MISSING,))
        except Expected:
            return

    def probe(self) -> None:
        database = self.settings.database
        # Being denied access to `default` is fine: it proves that the credentials are valid.
        acceptable = (_MISSING,) if database else (_MISSING, *_DENIED)
        try:
            self._glue("get_database", Name=(database or "default").lower(), expected=acceptable)
        except Expected:
            return

    def _create_database(self, database: str, cluster_id: str) -> None:
        database_input = {
            "Name": database,
            "Description": f"Topics of the Kafka cluster {cluster_id}, as tables.",
            "Parameters": {CLUSTER_MARK: cluster_id},
        }
        try:
            self._glue("create_database", DatabaseInput=database_input, expected=(_THERE_ALREADY,))
        except Expected:
            return

    def _get(self, source: SourceTable) -> dict[str, Any] | None:
        place = {"DatabaseName": self._database(source), "Name": self._table(source)}
        try:
            return self._get_entity("Table", "get_table", **place)
        except Expected:
            return None

    def _get_entity(self, key: str, operation: str, **arguments: object) -> dict[str, Any]:
        answer = self._glue(operation, expected=(_MISSING,), **arguments).get(key)
        if isinstance(answer, dict):
            return answer
        where = self.settings.endpoint or self.settings.region
        raise CatalogAway(f"{self.name}: what answers {operation} at {where} is not Glue.")

    def _glue(
        self, operation: str, *, expected: tuple[str, ...], **arguments: object
    ) -> dict[str, Any]:
        return self._aws.call("glue", operation, expected=expected, **arguments)

    def _database(self, source: SourceTable) -> str:
        return database_name(self.name, self.settings, source.cluster_id)

    def _table(self, source: SourceTable) -> str:
        if re.fullmatch(r"[a-z0-9_]+", source.name) and len(source.name) <= MAX_NAME:
            return source.name
        raise CatalogRefused(
            f"{self.name}: {cut(source.name, MAX_NAME)!r} cannot be the name of a table in Glue and"
            f" Athena, which allow at most {MAX_NAME} of a-z, 0-9 and _; it has {len(source.name)}.",
            f"Leave {self.name} out of the topic's `catalogs:`, or copy it to a topic of another name.",
        )

    def _format(self, source: SourceTable) -> Format:
        if (shown_as := _shown_as(source, self.settings.format)) is not None:
            return shown_as
        raise CatalogRefused(
            f"{self.name}: {source.name} has neither an Iceberg nor a Delta table to show yet."
        )

    def _changed(self, table: str, how: str) -> ListingChanged:
        return ListingChanged(f"{self.name}: {table}: {how}.")


def database_name(catalog: str, settings: GlueSettings, cluster_id: str) -> str:
    """From the settings, else the cluster's id; in lower case, with _ for all but a-z and 0-9."""
    name = (settings.database or re.sub(r"[^a-zA-Z0-9]", "_", cluster_id)).lower()
    if name and len(name) <= MAX_NAME:
        return name
    why = f"{name[:40]!r}... is too long for Glue" if name else "the Kafka cluster is not known"
    raise CatalogRefused(
        f"{catalog}: there is no name for a database: {why}.",
        f"Name it: `database:` of {catalog} under `catalogs:` in tableflow.yaml.",
    )


def _shown_as(source: SourceTable, preferred: Format) -> Format | None:
    formats: list[Format] = [
        name for name in source.formats if name == "iceberg" or source.delta_location is not None
    ]
    return preferred if preferred in formats else next(iter(formats), None)


def _table_of(listing: Listing) -> dict[str, Any]:
    table = listing.token
    if not isinstance(table, dict):
        raise TypeError("this listing does not come from a Glue catalog")
    return table
