"""Take a key out of an Iceberg table for good: out of its files, its metadata and its history."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import ManifestContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import AssertTableUUID, RemoveSnapshotRefUpdate
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyspark.sql import SparkSession

from tableflow_assets.base.errors import CommitConflict, TableflowError
from tableflow_assets.base.retry import poll_until
from tableflow_assets.lake.catalog import RestCatalog
from tableflow_assets.table.change import change_table
from tableflow_assets.table.commit import WRITER
from tableflow_assets.table.delta.lifecycle import purge as purge_delta_log
from tableflow_assets.table.formats import is_delta
from tableflow_assets.table.keyed.key_files import Key, KeyFiles, Row
from tableflow_assets.table.ledger import TAG
from tableflow_assets.table.spark_errors import named_spark_errors

ATTEMPTS = 5
# A run under way finds out at its commit that it was overtaken, and removes its own branch.
RUNS_END_WITHIN_SECONDS = 30
# No snapshot is newer, whatever the clocks of the machines that wrote them say.
FAR_FUTURE = "TIMESTAMP '2200-01-01 00:00:00'"


@dataclass(frozen=True)
class Traces:
    """Where a table holds a key or, after the erasure, what was removed."""

    rows: int = 0
    files: int = 0
    snapshots: int = 0
    refs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.files or self.refs)


class Erasure:
    """One table as it was at the start: every file that held the key then must be gone in the end."""

    def __init__(
        self,
        spark: SparkSession,
        spark_catalog: str,
        catalog: RestCatalog,
        table: Table,
        key: Key,
        column_prefix: str,
        is_doomed: Callable[[Table, str], bool] = lambda *_: False,
        counts: Callable[[Row], bool] = lambda _: True,
    ) -> None:
        """``is_doomed``: a branch or tag that must go though it does not hold the key yet."""
        self.spark, self.spark_catalog, self.catalog = spark, spark_catalog, catalog
        self.table, self.key, self.is_doomed = table, key, is_doomed
        self.files = KeyFiles(table, key, column_prefix)
        self.snapshots = {snapshot.snapshot_id for snapshot in table.snapshots()}
        self.all_files = self.files.in_store()
        self.files_with_key = self.files.holding(self.all_files, counts)

    def traces(self, rows: int) -> Traces:
        refs = self._refs_in_the_way()
        if not (rows or self.files_with_key or refs):
            return Traces()
        kept_snapshots = {
            ref.snapshot_id
            for name, ref in self.table.metadata.refs.items()
            if name not in (MAIN_BRANCH, TAG, *refs)
        }
        return Traces(rows, len(self.files_with_key), len(self.snapshots - kept_snapshots), refs)

    def rewrite(self, branch: str) -> None:
        """Take rows that are only marked as deleted, just now or long ago, out of the branch's files."""
        rewrite_all = f"branch => '{branch}', options => map('rewrite-all', 'true')"
        hashes = ", ".join(f"X'{key_hash}'" for key_hash in sorted(self.key.hashes))
        rounds = [rewrite_all]  # if nothing less will do
        if "_kafka.key_hash" in self.table.schema().column_names:
            rounds.insert(0, f'{rewrite_all}, where => "_kafka.key_hash IN ({hashes})"')
        for arguments in rounds:
            if not self._held_by(branch):
                return
            self._call("rewrite_data_files", arguments)
        if self._held_by(branch):
            raise TableflowError(
                f"Rewriting the files of {self._name} did not take the key out of them.",
                "The table is as it was. Is somebody else writing to it? Run it again.",
            )

    def seal(self, branch: str, properties: Mapping[str, str]) -> None:
        """Add a snapshot without new rows, whose metadata no longer mentions removed files.

        A manifest keeps the entries of the files that its commit removed, with the smallest and largest
        values of their columns, which are keys and contents.
        """
        self.catalog.ask(self.table.refresh)

        def commit() -> None:
            with (
                self.table.transaction() as transaction,
                _LiveFilesOnly(
                    Operation.APPEND,
                    transaction,
                    self.table.io,
                    snapshot_properties=dict(properties),
                    branch=branch,
                ),
            ):
                pass

        change_table(self.catalog, self.table, commit)

    def purge(self, rows: int, counts: Callable[[Row], bool]) -> Traces:
        """Remove everything that still refers to files with the key, and check that they are gone.

        ``counts``: whether a row in a file that appeared meanwhile is one of those erased.
        """
        earlier_files, holding = self.all_files, set(self.files_with_key)
        remaining = set(holding)
        refs: list[str] = []
        for attempt in range(ATTEMPTS):
            try:
                refs += self._drop_refs()
                if holding or attempt:
                    self._call("expire_snapshots", f"older_than => {FAR_FUTURE}, retain_last => 1")
            except (CommitConflict, CommitFailedException):
                time.sleep(attempt)
                continue
            files = self.files.in_store()
            holding |= self.files.holding(files - earlier_files, counts)
            earlier_files = earlier_files | files
            remaining = holding & files
            self.catalog.ask(self.table.refresh)
            # Files no snapshot refers to were left behind by a run, or an expiry, that was killed.
            stray = remaining - self.files.of(self.table.snapshots())
            self.files.delete(stray, self.catalog.storage)
            if remaining == stray:
                strays = self.catalog.ask(self.files.stray_manifests)
                self.files.delete(strays, self.catalog.storage)
                if is_delta(self.table):
                    purge_delta_log(self.catalog, self.table)
                snapshots_left = {snapshot.snapshot_id for snapshot in self.table.snapshots()}
                return Traces(rows, len(holding), len(self.snapshots - snapshots_left), tuple(refs))
            self.files_with_key = holding
        raise CommitConflict(
            f"The rows of the key are gone from {self._name}, but something still refers to"
            f" {len(remaining)} files that hold it.",
            "Run the same command again, with no other run or rebuild on this table.",
        )

    @property
    def _name(self) -> str:
        return ".".join(self.table.name())

    def _held_by(self, ref: str, *, or_remembered: bool = False) -> bool:
        snapshot = self.catalog.ask(self.table.refresh).snapshot_by_name(ref)
        if snapshot is None:
            return False
        return bool(self.files_with_key & self.files.of([snapshot], and_removed=or_remembered))

    def _refs_in_the_way(self) -> tuple[str, ...]:
        names = [name for name in self.table.metadata.refs if name not in (MAIN_BRANCH, TAG)]
        return tuple(
            name
            for name in names
            if self.is_doomed(self.table, name) or self._held_by(name, or_remembered=True)
        )

    def _drop_refs(self) -> tuple[str, ...]:
        self.catalog.ask(self.table.refresh)
        refs = poll_until(
            lambda refs: not any(map(_may_be_in_use, refs)),
            self._refs_in_the_way,
            every=1,
            within=RUNS_END_WITHIN_SECONDS,
            before_retry=lambda: self.catalog.ask(self.table.refresh),
        )
        if refs:
            requirements = (AssertTableUUID(uuid=self.table.metadata.table_uuid),)
            updates = tuple(
                RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in refs
            )
            commit = self.catalog.iceberg.commit_table
            self.catalog.ask(lambda: commit(self.table, requirements, updates))
        return refs

    def _call(self, procedure: str, arguments: str) -> None:
        call = f"CALL `{self.spark_catalog}`.system.{procedure}"
        with named_spark_errors(self._name):
            self.spark.sql(f"{call}(table => '{self._name}', {arguments})").collect()


def _may_be_in_use(ref: str) -> bool:
    """Whether the branch is so new that its run may still be going."""
    match = re.fullmatch(rf"{WRITER}_(\d+)_\w+", ref)
    return match is not None and int(match[1]) > time.time() - 20 * RUNS_END_WITHIN_SECONDS


class _LiveFilesOnly(_FastAppendFiles):
    def _existing_manifests(self) -> list[ManifestFile]:
        return [self._without_deleted(manifest) for manifest in super()._existing_manifests()]

    def _without_deleted(self, manifest: ManifestFile) -> ManifestFile:
        # Manifests of delete files hold positions, not contents.
        if manifest.content != ManifestContent.DATA or manifest.deleted_files_count == 0:
            return manifest
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in self.fetch_manifest_entry(manifest):
                writer.existing(entry)
        return writer.to_manifest_file()
