"""What a table's newest snapshot is made of, counted by its parts. Reads metadata, and no row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import ceil

from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table import Table

from tableflow_assets.operate.maintenance.file_groups import Place, Places
from tableflow_assets.settings.settings import Topic

SMALL = 0.75  # of the target size: below it a file is worth merging with others
SMALL_MANIFEST_ENTRIES = 100  # likewise a manifest with fewer


@dataclass
class Counts:
    files: int = 0
    small_files: int = 0
    bytes: int = 0
    small_bytes: int = 0
    rows: int = 0
    dead_rows: int = 0  # marked as deleted; some of the marks may be about files that are gone
    delete_files: int = 0

    def add(self, other: Counts) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def files_when_packed(self, target: int) -> int:
        return ceil(self.small_bytes / target)


@dataclass
class Part:
    """A place; within it, the groups of files that can be merged with one another."""

    place: Place
    groups: dict[object, Counts] = field(default_factory=lambda: defaultdict(Counts))

    @property
    def total(self) -> Counts:
        total = Counts()
        for group in self.groups.values():
            total.add(group)
        return total


@dataclass
class Content:
    parts: dict[Place, Part] = field(default_factory=dict)
    manifests: int = 0
    small_manifests: int = 0
    oldest: datetime | None = None  # no row is older than this

    @property
    def total(self) -> Counts:
        total = Counts()
        for part in self.parts.values():
            total.add(part.total)
        return total


def content_of(table: Table, topic: Topic, places: Places) -> Content:
    content, target = Content(), topic.target_file_bytes
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        content.manifests += 1
        content.small_manifests += _live_entries(manifest) < SMALL_MANIFEST_ENTRIES
        if not _live_entries(manifest):
            continue
        spec = manifest.partition_spec_id
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            place = places.of(file, spec)
            group = content.parts.setdefault(place, Part(place)).groups[
                places.mergeable(file, spec)
            ]
            if file.content != DataFileContent.DATA:
                group.delete_files += 1
                group.dead_rows += file.record_count
                continue
            oldest = places.oldest_in(file) or place.start
            content.oldest = min(filter(None, (content.oldest, oldest)), default=None)
            group.files += 1
            group.rows += file.record_count
            group.bytes += file.file_size_in_bytes
            if file.file_size_in_bytes < SMALL * target:
                group.small_files += 1
                group.small_bytes += file.file_size_in_bytes
    return content


def _live_entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
