"""The schemas of a topic against its table: which versions its records are read with.

Usually all of them. But a version that was refused stays in the registry after somebody has registered
a better one, and must not block the table forever. So the newest version has to fit together with those
that the table has been written with, which the ledger names; any other is left out if it does not fit.
Records written with a version that is left out become dead letters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from tableflow_assets.base.errors import UnsupportedSchema
from tableflow_assets.decode.columns import Path
from tableflow_assets.decode.schemas import Schemas, described_by, key_of, value_of
from tableflow_assets.decode.serialization import Serialization
from tableflow_assets.decode.types import table_schema
from tableflow_assets.settings.settings import Topic
from tableflow_assets.source.registry import Registry
from tableflow_assets.source.subject import RegisteredSchema, Subject
from tableflow_assets.table.ledger import read_ledger
from tableflow_assets.table.schema_diff import (
    Change,
    SchemaDiff,
    diff,
    left_out,
    partition_names,
)


def fitting_schemas(topic: Topic, registry: Registry, table: Table | None) -> Schemas:
    """The schemas to read the topic's records with.

    Where the newest does not fit it is still among them, so that evolving the table says why.
    """
    key = key_of(topic, registry)
    if topic.value_subject is None:
        return Schemas(value_of(topic, registry), key)
    subject = registry.subject(topic.value_subject)
    fitting = Fit(topic, key, table).versions(subject)
    left_out = {version.schema_id for version in {*subject.versions} - {*fitting.versions}}
    return Schemas(described_by(fitting, topic.record), key, frozenset(left_out))


@dataclass(frozen=True)
class Fit:
    topic: Topic
    key: Serialization
    table: Table | None

    def versions(self, subject: Subject) -> Subject:
        """The subject without the versions that were never accepted and do not fit."""
        if self.diff_of(subject).fits:
            return subject
        accepted_ids = self._written_with()
        *older, newest = subject.versions
        accepted = [version for version in older if version.schema_id in accepted_ids]
        if not self._fits(subject, [*accepted, newest]):
            # If the newest is refused even on its own, that shows most plainly what is wrong.
            alone = replace(subject, versions=(newest,))
            fits_alone = self.diff_of(alone).fits
            return replace(subject, versions=(*accepted, newest)) if fits_alone else alone
        for version in reversed(older):
            more = [v for v in older if v in accepted or v == version]
            if version not in accepted and self._fits(subject, [*more, newest]):
                accepted = more
        return replace(subject, versions=(*accepted, newest))

    def diff_of(self, subject: Subject) -> SchemaDiff:
        """What these versions together would change in the table."""
        try:
            value = described_by(subject, self.topic.record)
            newest = described_by(newest_of(subject), self.topic.record)
            return self.diff(value, newest)
        except UnsupportedSchema as error:
            return SchemaDiff((Change(subject.name, "refused", None, None, error.problem),))

    def diff(self, value: Serialization, newest: Serialization) -> SchemaDiff:
        newest_key = self.key
        if self.key.subject:
            newest_key = described_by(newest_of(self.key.subject), self.topic.key_record)
        target = table_schema(Schemas(value, self.key), self.topic.mode)
        newest_target = table_schema(Schemas(newest, newest_key), self.topic.mode)
        if self.table is None:
            changes = diff(Schema(), target, newest_target)
        else:
            reserved = partition_names(self.table)
            changes = diff(self.table.schema(), target, newest_target, reserved)
        return SchemaDiff((*changes.changes, *left_out(self._without_column(value))))

    def _without_column(self, value: Serialization) -> Iterator[Path]:
        around = ("after",) if self.topic.mode == "cdc" else ()
        for path in value.left_out():
            if path[: len(around)] == around:
                yield path[len(around) :]

    def _fits(self, subject: Subject, versions: list[RegisteredSchema]) -> bool:
        return self.diff_of(replace(subject, versions=tuple(versions))).fits

    def _written_with(self) -> tuple[int, ...]:
        """The ids of the schemas that the table's newest records were read with."""
        if self.table is None or self.table.current_snapshot() is None:
            return ()
        return read_ledger(self.table).entry.schema_ids


def newest_of(subject: Subject) -> Subject:
    return replace(subject, versions=(subject.latest,))
