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
# A run that is under way learns from its commit that it was overtaken, and removes its own branch.
RUNS_END_WITHIN_SECONDS = 30
# No snapshot is newer, whatever the clocks of the machines that wrote them say.
FAR_FUTURE = "TIMESTAMP '2200-01-01 00:00:00'"


@dataclass(frozen=True)
class Traces:
    """Where a table holds a key; after the erasure, what was removed."""

    rows: int = 0
    files: int = 0
    snapshots: int = 0
    refs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows or self.files or self.refs)


class Erasure:
    """One table, as it was found: what holds the key now must be gone in the end."""

    def __init__(
        self,
        spark: SparkSession,
        spark_catalog: str,
        catalog: RestCatalog,
        table: Table,
        key: Key,
        place: str,
        is_doomed: Callable[[Table, str], bool] = lambda *_: False,
        counts: Callable[[Row], bool] = lambda _: True,
    ) -> None:
        """``is_doomed``: a branch or tag that must go though it does not hold the key yet."""
        self.spark, self.spark_catalog, self.catalog = spark, spark_catalog, catalog
        self.table, self.key, self.is_doomed = table, key, is_doomed
        self.files = KeyFiles(table, key, place)
        self.snapshots = {snapshot.snapshot_id for snapshot in table.snapshots()}
        self.listed = self.files.listed()
        self.held = self.files.holding(self.listed, counts)

    def traces(self, rows: int) -> Traces:
        refs = self._refs_in_the_way()
        if not (rows or self.held or refs):
            return Traces()
        kept = {
            ref.snapshot_id
            for name, ref in self.table.metadata.refs.items()
            if name not in (MAIN_BRANCH, TAG, *refs)
        }
        return Traces(rows, len(self.held), len(self.snapshots - kept), refs)

    def rewrite(self, branch: str) -> None:
        """Rows that are only marked as deleted, here or long ago, go out of the branch's files."""
        everything = f"branch => '{branch}', options => map('rewrite-all', 'true')"
        hashes = ", ".join(f"X'{one}'" for one in sorted(self.key.hashes))
        rounds = [everything]  # where no less will do
        if "_kafka.key_hash" in self.table.schema().column_names:
            rounds.insert(0, f'{everything}, where => "_kafka.key_hash IN ({hashes})"')
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
        """A snapshot without new rows, whose metadata remembers nothing of files that are gone.

        A manifest keeps the entries of the files that its commit removed, with the smallest and the
        largest values of their columns: keys and contents.
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
        """Remove all that still leads to the files that held the key, and see that they are gone.

        ``counts``: whether a row in a file that came only now is one of those that were erased.
        """
        known, held, left = self.listed, set(self.held), set(self.held)
        refs: list[str] = []
        for attempt in range(ATTEMPTS):
            try:
                refs += self._drop_refs()
                if held or attempt:
                    self._call("expire_snapshots", f"older_than => {FAR_FUTURE}, retain_last => 1")
            except (CommitConflict, CommitFailedException):
                time.sleep(attempt)
                continue
            listed = self.files.listed()
            held |= self.files.holding(listed - known, counts)
            known = known | listed
            left = held & listed
            self.catalog.ask(self.table.refresh)
            # What no snapshot refers to was left by a run, or an expiry, that was killed.
            stray = left - self.files.of(self.table.snapshots())
            self.files.delete(stray, self.catalog.storage)
            if left == stray:
                strays = self.catalog.ask(self.files.stray_manifests)
                self.files.delete(strays, self.catalog.storage)
                if is_delta(self.table):
                    purge_delta_log(self.catalog, self.table)
                now = {snapshot.snapshot_id for snapshot in self.table.snapshots()}
                return Traces(rows, len(held), len(self.snapshots - now), tuple(refs))
            self.held = held
        raise CommitConflict(
            f"The rows of the key are gone from {self._name}, but something still refers to"
            f" {len(left)} files that hold it.",
            "Run the same command again, with no other run or rebuild on this table.",
        )

    @property
    def _name(self) -> str:
        return ".".join(self.table.name())

    def _held_by(self, ref: str, *, or_remembered: bool = False) -> bool:
        snapshot = self.catalog.ask(self.table.refresh).snapshot_by_name(ref)
        if snapshot is None:
            return False
        return bool(self.held & self.files.of([snapshot], and_removed=or_remembered))

    def _refs_in_the_way(self) -> tuple[str, ...]:
        others = [name for name in self.table.metadata.refs if name not in (MAIN_BRANCH, TAG)]
        return tuple(
            name
            for name in others
            if self.is_doomed(self.table, name) or self._held_by(name, or_remembered=True)
        )

    def _drop_refs(self) -> tuple[str, ...]:
        self.catalog.ask(self.table.refresh)
        refs = poll_until(
            lambda refs: not any(map(_is_of_a_run, refs)),
            self._refs_in_the_way,
            every=1,
            within=RUNS_END_WITHIN_SECONDS,
            before_retry=lambda: self.catalog.ask(self.table.refresh),
        )
        if refs:
            same = (AssertTableUUID(uuid=self.table.metadata.table_uuid),)
            updates = tuple(
                RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in refs
            )
            commit = self.catalog.iceberg.commit_table
            self.catalog.ask(lambda: commit(self.table, same, updates))
        return refs

    def _call(self, procedure: str, arguments: str) -> None:
        call = f"CALL `{self.spark_catalog}`.system.{procedure}"
        with named_spark_errors(self._name):
            self.spark.sql(f"{call}(table => '{self._name}', {arguments})").collect()


def _is_of_a_run(ref: str) -> bool:
    """Made so short a while ago that its run may still be there."""
    made = re.fullmatch(rf"{WRITER}_(\d+)_\w+", ref)
    return made is not None and int(made[1]) > time.time() - 20 * RUNS_END_WITHIN_SECONDS


class _LiveFilesOnly(_FastAppendFiles):
    def _existing_manifests(self) -> list[ManifestFile]:
        return [self._without_deleted(manifest) for manifest in super()._existing_manifests()]

    def _without_deleted(self, manifest: ManifestFile) -> ManifestFile:
        # Those of delete files know positions, not contents.
        if manifest.content != ManifestContent.DATA or manifest.deleted_files_count == 0:
            return manifest
        with self.new_manifest_writer(self.spec(manifest.partition_spec_id)) as writer:
            for entry in self.fetch_manifest_entry(manifest):
                writer.existing(entry)
        return writer.to_manifest_file()
