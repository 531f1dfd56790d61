"""Snowflake: Iceberg tables that Snowflake reads and never writes.

Snowflake has no table properties, so our marks are in the table's comment, as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tableflow_assets.base.errors import CatalogAway, CatalogRefused, ListingChanged
from tableflow_assets.publish.base import (
    SNAPSHOT_MARK,
    TOPIC_MARK,
    UUID_MARK,
    ListedColumn,
    Listing,
    PublishingCatalog,
    SourceTable,
)
from tableflow_assets.publish.snowflake import sql
from tableflow_assets.publish.snowflake.connection import (
    ABSENT,
    EXISTS,
    NO_RIGHT,
    Connect,
    Session,
    StatementRefused,
    connected,
)
from tableflow_assets.publish.snowflake.types import listed_columns, type_family
from tableflow_assets.settings.snowflake import ObjectStoreIntegration, SnowflakeSettings

LONGEST_NAME = 255
METADATA_MARK = "tableflow.metadata_location"


class SnowflakeCatalog(PublishingCatalog):
    kind = "snowflake"

    def __init__(
        self, name: str, settings: SnowflakeSettings, connect: Connect = connected
    ) -> None:
        super().__init__(name)
        self.settings = settings
        self._connect = connect

    def shows(self, source: SourceTable) -> bool:
        return "iceberg" in source.formats

    def listing_for(self, source: SourceTable) -> Listing:
        name = self.name_of(source)
        self.origin(source)  # refuses a table outside of the volume
        metadata_location = _plain(source.metadata_location)
        return Listing(
            name=str(name),
            location=_folder_of(metadata_location),
            columns=listed_columns(source.schema),
            snapshot=source.snapshot,
            metadata_location=metadata_location,
            table_uuid=source.uuid,
            topic=source.topic,
        )

    def name_of(self, source: SourceTable) -> sql.TableName:
        """In upper case, as Snowflake reads unquoted names: so nobody needs quotes."""
        if len(source.name) > LONGEST_NAME:
            raise CatalogRefused(
                f"{self.name}: Snowflake takes names of up to {LONGEST_NAME} characters;"
                f" {source.name!r} has {len(source.name)}.",
                "Give the topic a shorter name, or leave this catalog out of its `catalogs`.",
            )
        return sql.TableName(*self.schema_of(source.namespace), sql.folded(source.name))

    def schema_of(self, namespace: str) -> tuple[str, str]:
        schema = self.settings.schema_name or namespace
        return sql.folded(self.settings.database), sql.folded(schema)

    def origin(self, source: SourceTable) -> sql.Origin:
        integration, volume = self.settings.integration, self.settings.external_volume
        if not isinstance(integration, ObjectStoreIntegration):
            return sql.Origin(
                namespace=integration.namespace or source.namespace, table=source.name
            )
        base = volume.base_url.rstrip("/") + "/" if volume else ""
        metadata_location = _plain(source.metadata_location)
        if not volume or not metadata_location.startswith(base):
            raise CatalogRefused(
                f"{self.name}: {metadata_location} is not in the external volume, which begins at"
                f" {base}",
                "Set `external_volume.base_url` to a folder that all tables are in.",
            )
        return sql.Origin(metadata_path=metadata_location.removeprefix(base))

    def comment(self, source: SourceTable) -> str:
        marks = {
            UUID_MARK: source.uuid,
            TOPIC_MARK: source.topic,
            # As text: some JSON readers would round such a number.
            SNAPSHOT_MARK: None if source.snapshot is None else str(source.snapshot),
            METADATA_MARK: _plain(source.metadata_location),
        }
        described = {"description": source.description} if source.description else {}
        return json.dumps(described | marks)

    def ensure_namespace(self, source: SourceTable) -> None:
        name = self.name_of(source)
        with self._session(name) as session:
            try:
                row = session.first(sql.show_schema(name))
            except StatementRefused as error:
                if error.code not in ABSENT:
                    raise
                session.ask(sql.create_database(name))
                row = None
            if row is None or row["name"] != name.schema:
                session.ask(sql.create_schema(name))

    def find(self, source: SourceTable) -> Listing | None:
        name = self.name_of(source)
        with self._session(name) as session:
            try:
                row = _of_name(name, session.first(sql.show_iceberg_table(name)))
                if row is None:
                    object_row = _of_name(name, session.first(sql.show_object(name)))
                    return None if object_row is None else _foreign(name, object_row)
                marks = Marks.of(row["comment"])
                if marks is None:
                    return _foreign(name, row)
                metadata_location = _metadata_location(session, name)
                columns = session.ask(sql.describe_table(name))
            except StatementRefused as error:
                if error.code in ABSENT:
                    return None
                raise
        return Listing(
            name=str(name),
            location=_folder_of(metadata_location),
            columns=tuple(map(_column, columns)),
            snapshot=marks.snapshot_of(metadata_location),
            metadata_location=metadata_location,
            table_uuid=marks.uuid,
            topic=marks.topic,
            token=row["comment"],
        )

    def create(self, source: SourceTable, target: Listing) -> None:
        name, origin = self.name_of(source), self.origin(source)
        statement = sql.create_table(name, self.settings, origin, self.comment(source))
        with self._session(name) as session:
            try:
                session.ask(statement)
            except StatementRefused as error:
                if error.code != EXISTS:
                    raise
                raise ListingChanged(
                    f"{self.name}: there is already something called {name}.",
                    "If it was not created just now, our role cannot see it: drop it, or "
                    + sql.grant_ownership(self.settings, name),
                ) from None
            self._require_shown(session, name, target)

    def replace(self, source: SourceTable, target: Listing, current: Listing) -> None:
        name = self.name_of(source)
        with self._session(name) as session:
            try:
                # Snowflake has no lock for this: the best we can do is check as late as possible.
                row = _of_name(name, session.first(sql.show_iceberg_table(name)))
                if row is None or row["comment"] != current.token:
                    raise ListingChanged(f"{self.name}: {name} was changed by somebody else.")
                session.ask(sql.refresh_table(name, self.origin(source)))
                # Before the comment: if we fail here, the old comment shows that there is more to do.
                self._require_shown(session, name, target)
                session.ask(sql.comment_table(name, self.comment(source)))
            except StatementRefused as error:
                if error.code not in ABSENT:
                    raise
                raise ListingChanged(f"{self.name}: {name} is gone.") from None

    def drop(self, source: SourceTable, current: Listing) -> None:
        name = self.name_of(source)
        with self._session(name) as session:
            try:
                session.ask(sql.drop_table(name))
            except StatementRefused as error:
                if error.code not in ABSENT:  # absent: its schema or database is gone
                    raise

    def probe(self) -> None:
        name = sql.TableName(*self.schema_of("public"), "")
        with self._session(name) as session:
            session.ask("SELECT CURRENT_USER()")

    def run(self, statements: list[str], namespace: str, on_done: Callable[[int], None]) -> None:
        """Run the statements of `snowflake_sql`; if one fails, those before it stay done."""
        name = sql.TableName(*self.schema_of(namespace), "")
        with self._session(name) as session:
            for number, statement in enumerate(statements):
                session.ask(statement)
                on_done(number)

    def _require_shown(self, session: Session, name: sql.TableName, target: Listing) -> None:
        """Snowflake shows what the other catalog has, which may not be up to date yet."""
        metadata_location = _metadata_location(session, name)
        if metadata_location != target.metadata_location:
            raise CatalogAway(
                f"{self.name}: {name} shows {metadata_location}, not yet {target.metadata_location}.",
                f"It reads through the integration {self.settings.integration.name}: is the table"
                " up to date there? It will be retried automatically.",
            )

    @contextmanager
    def _session(self, name: sql.TableName) -> Iterator[Session]:
        with self._connect(self.name, self.settings) as session:
            try:
                yield session
            except StatementRefused as error:
                if error.code not in (NO_RIGHT, *ABSENT):
                    raise
                grants = sql.grants(self.settings, name)
                if name.table:
                    grants.append(sql.grant_ownership(self.settings, name))
                raise CatalogRefused(
                    error.problem,
                    "Create what is missing (tableflow snowflake sql), or have an administrator run"
                    " those of these that are missing: " + "; ".join(grants),
                ) from None


@dataclass(frozen=True)
class Marks:
    """What our comment says about a table."""

    uuid: str
    topic: str
    snapshot: int | None
    metadata_location: str

    @classmethod
    def of(cls, comment: str | None) -> Marks | None:
        """None: somebody else's comment, or none at all."""
        try:
            marks = json.loads(comment or "")
        except ValueError:
            return None
        if not isinstance(marks, dict):
            return None
        uuid, topic = marks.get(UUID_MARK), marks.get(TOPIC_MARK)
        if not isinstance(uuid, str) or not isinstance(topic, str):
            return None
        snapshot = str(marks.get(SNAPSHOT_MARK))
        is_number = re.fullmatch(r"-?\d{1,19}", snapshot, re.ASCII)
        metadata_location = str(marks.get(METADATA_MARK))
        return cls(uuid, topic, int(snapshot) if is_number else None, metadata_location)

    def snapshot_of(self, metadata_location: str) -> int | None:
        """None if Snowflake shows another state than the one the comment was written for."""
        return self.snapshot if metadata_location == self.metadata_location else None


def _of_name(name: sql.TableName, row: dict[str, Any] | None) -> dict[str, Any] | None:
    return row if row is not None and row["name"] == name.table else None


def _metadata_location(session: Session, name: sql.TableName) -> str:
    row = session.first(sql.table_information(name)) or {}
    information = json.loads(row.get("INFORMATION") or "{}")
    return _plain(str(information.get("metadataLocation", "")))


def _plain(location: str) -> str:
    """With the scheme that our tables use; Snowflake has several for the same store."""
    return re.sub(r"^(s3a|s3n|s3compat|s3gov)://", "s3://", location)


def _folder_of(metadata_location: str) -> str:
    """The table's own folder, which Snowflake does not report."""
    return metadata_location.rpartition("/metadata/")[0]


def _foreign(name: sql.TableName, row: dict[str, Any]) -> Listing:
    parts = [row.get("external_volume_name"), row.get("base_location")]
    where = "/".join(str(part) for part in parts if part)
    return Listing(str(name), where or f"Snowflake ({row.get('kind', 'TABLE')})", (), None)


def _column(row: dict[str, Any]) -> ListedColumn:
    return ListedColumn(sql.folded(str(row["name"])), type_family(str(row["type"])))
