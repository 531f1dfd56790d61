"""Files that belong to nothing go; everything else stays."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tableflow_assets.base.errors import MaintenanceFailed
from tableflow_assets.operate.maintenance.orphans import remove_orphans
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.table.delta.store import store_at
from tableflow_assets.table.formats import delta_root
from tableflow_assets_tests.operate.maintenance.conftest import commit_keys
from tableflow_assets_tests.support.kafka_topics import KafkaTopic
from tableflow_assets_tests.support.tables import rows_of, table_of, verified

NOW = timedelta(0)


def test_a_stray_file_goes_and_nothing_else(keyed: Pipeline, kafka_topic: KafkaTopic) -> None:
    commit_keys(keyed, kafka_topic, 2)
    table = table_of(keyed)
    table.manage_snapshots().create_tag(table.metadata.snapshots[1].snapshot_id, "old").commit()
    rows, storage = rows_of(keyed), keyed.catalog.storage
    folder, delta = table.location(), delta_root(table)
    strays = [f"{delta}/_kafka_key_bucket_2=0/stray.parquet", f"{folder}/metadata/stray-m0.avro"]
    other_files = [f"{delta}/_delta_log/other.json", f"{folder}/metadata/version-hint.text"]
    for location in (*strays, *other_files):
        store_at(folder, storage).put(location.removeprefix(f"{folder}/"), b"left behind")

    with pytest.raises(MaintenanceFailed, match="has not committed its files yet"):
        remove_orphans(keyed, older_than=timedelta(hours=23))
    assert remove_orphans(keyed).files == ()  # they are young
    dry_run = remove_orphans(keyed, older_than=NOW, force=True, dry_run=True)
    assert sorted(file.file for file in dry_run.files) == sorted(s[len("s3://") :] for s in strays)
    report = remove_orphans(keyed, older_than=NOW, force=True)
    assert (report.files, report.bytes) == (dry_run.files, 2 * len(b"left behind"))
    assert remove_orphans(keyed, older_than=NOW, force=True).files == ()

    store = store_at(folder, storage)
    assert all(store.read(file.removeprefix(f"{folder}/")) for file in other_files)
    store.delete([file.removeprefix(f"{folder}/") for file in other_files])
    assert rows_of(keyed) == rows
    table = table_of(keyed)
    for snapshot in table.snapshots():
        table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
    commit_keys(keyed, kafka_topic, 1)
    verified(keyed)


def test_nothing_goes_while_a_file_of_the_table_is_missing(
    keyed: Pipeline, kafka_topic: KafkaTopic
) -> None:
    commit_keys(keyed, kafka_topic, 1)
    table = table_of(keyed)
    head = table.current_snapshot()
    assert head is not None
    store = store_at(table.location(), keyed.catalog.storage)
    manifest = head.manifests(table.io)[0].manifest_path.removeprefix(f"{table.location()}/")
    content = store.read(manifest)
    assert content is not None
    store.delete([manifest])
    store.put("data/stray.parquet", b"left behind")
    with pytest.raises(MaintenanceFailed, match="is missing"):
        remove_orphans(keyed, older_than=NOW, force=True)
    assert store.read("data/stray.parquet")
    store.put(manifest, content)
    assert len(remove_orphans(keyed, older_than=NOW, force=True).files) == 1
