"""What a table's newest snapshot holds, counted by file groups. Reads metadata, and no row."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import ceil

from pyiceberg.manifest import DataFileContent, ManifestFile
from pyiceberg.table import Table

from tableflow_assets.operate.maintenance.file_groups import FileGroup, Grouping
from tableflow_assets.settings.managed_table import ManagedTable

SMALL = 0.75  # of the target size: below it a file is worth merging with others
SMALL_MANIFEST_ENTRIES = 100  # likewise for a manifest with fewer


@dataclass
class Counts:
    files: int = 0
    small_files: int = 0
    bytes: int = 0
    small_bytes: int = 0
    rows: int = 0
    dead_rows: int = 0  # marked as deleted; some of the marks may refer to files that are gone
    delete_files: int = 0

    def add(self, counts: Counts) -> None:
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(counts, counter.name))

    def files_when_packed(self, target: int) -> int:
        return ceil(self.small_bytes / target)


@dataclass
class GroupContent:
    """What a file group holds, counted by the sets of files that can be merged with one another."""

    group: FileGroup
    mergeable: dict[object, Counts] = field(default_factory=lambda: defaultdict(Counts))

    @property
    def total(self) -> Counts:
        total = Counts()
        for counts in self.mergeable.values():
            total.add(counts)
        return total


@dataclass
class Content:
    groups: dict[FileGroup, GroupContent] = field(default_factory=dict)
    manifests: int = 0
    small_manifests: int = 0
    oldest: datetime | None = None  # no row is older than this

    @property
    def total(self) -> Counts:
        total = Counts()
        for group in self.groups.values():
            total.add(group.total)
        return total


def content_of(table: Table, topic: ManagedTable, groups: Grouping) -> Content:
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
            group = groups.of(file, spec)
            group_content = content.groups.setdefault(group, GroupContent(group))
            counts = group_content.mergeable[groups.mergeable(file, spec)]
            if file.content != DataFileContent.DATA:
                counts.delete_files += 1
                counts.dead_rows += file.record_count
                continue
            oldest = groups.oldest_in(file) or group.start
            content.oldest = min(filter(None, (content.oldest, oldest)), default=None)
            counts.files += 1
            counts.rows += file.record_count
            counts.bytes += file.file_size_in_bytes
            if file.file_size_in_bytes < SMALL * target:
                counts.small_files += 1
                counts.small_bytes += file.file_size_in_bytes
    return content


def _live_entries(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)
