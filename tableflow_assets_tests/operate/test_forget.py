"""Erasing a key: gone from every file that is there, and never brought back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import fastavro
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from pyarrow import BufferReader

from tableflow_assets.base.errors import DataLoss, TableflowError
from tableflow_assets.operate import forget as forgetting
from tableflow_assets.operate.forget import Report, find, forget
from tableflow_assets.operate.rebuild import rebuild
from tableflow_assets.pipeline import Pipeline
from tableflow_assets.settings.names import DEAD_LETTER_SUFFIX
from tableflow_assets.table import commit as commits
from tableflow_assets.table.keyed import erasure
from tableflow_assets.table.ledger import TAG, read_entries, read_ledger
from tableflow_assets.table.suspension import suspend, suspension_of
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    table_of,
    verified,
)

KEY = "unmistakable-key-of-somebody"
MARK = KEY[:12].encode()  # metadata keeps only the first 16 bytes of a value
NOTE = {
    "type": "record",
    "name": "Note",
    "fields": [{"name": "id", "type": "int"}, {"name": "text", "type": ["null", "string"]}],
}


def send(topic: KafkaTopic, *ids: int, key: str | bytes = KEY, partition: int = 0) -> None:
    """Records whose content also names the key."""
    values = [{"id": number, "text": f"{key!r} wrote {number}"} for number in ids]
    topic.send(NOTE, values, key=key, partition=partition)


def objects_of(pipeline: Pipeline, suffix: str = "") -> Iterator[tuple[str, bytes]]:
    """Every object under the table's location, referred to or not."""
    storage = pipeline.catalog.storage
    store = boto3.client(
        "s3",
        endpoint_url=storage.endpoint,
        region_name=storage.region,
        aws_access_key_id=storage.access_key,
        aws_secret_access_key=storage.secret_key,
    )
    location = table_of(pipeline, suffix).location().removeprefix("s3://")
    bucket, _, folder = location.partition("/")
    for page in store.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=f"{folder}/"):
        for item in page.get("Contents", ()):
            yield item["Key"], store.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()


def content_of(name: str, data: bytes) -> str:
    """What an object says, with nothing compressed or encoded."""
    if name.endswith(".parquet"):
        return repr(pq.read_table(BufferReader(data)).to_pylist())
    if name.endswith(".avro"):
        import io

        return repr(list(fastavro.reader(io.BytesIO(data))))
    return repr(data)


def objects_with_the_key(pipeline: Pipeline, suffix: str = "", mark: bytes = MARK) -> list[str]:
    return [
        name
        for name, data in objects_of(pipeline, suffix)
        if mark in data or repr(mark)[2:-1] in content_of(name, data)
    ]


def landed(tableflow: Tableflow, topic: KafkaTopic, mode: str, **options: Any) -> Pipeline:
    """Three commits, each with a record of the key and records of others."""
    pipeline = pipeline_of(tableflow, topic, mode=mode, key_buckets=2, **options)
    for number in range(3):
        send(topic, number)
        for other_key in range(4):
            send(topic, 10 * (other_key + 1) + number, key=f"other-{other_key}", partition=1)
        pipeline.catch_up()
    return pipeline


# --- what it erases ---------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_no_object_of_the_table_holds_the_key_afterwards(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = landed(tableflow, kafka_topic, mode)
    other_ids = [number for number in ids_of(pipeline) if number >= 10]
    before, committed = (
        len(table_of(pipeline).snapshots()),
        read_ledger(table_of(pipeline)).committed,
    )
    assert objects_with_the_key(pipeline)

    report = forget(pipeline, KEY, run_id="erase-1")

    assert objects_with_the_key(pipeline) == []
    assert ids_of(pipeline) == other_ids
    assert report.erased
    assert (report.table.rows, report.table.files) == ({"append": 3, "upsert": 1}[mode], 3)
    assert (report.table.snapshots, report.table.refs) == (before, ())
    assert not report.dead_letters
    (in_log,) = report.log
    assert (in_log.partition, in_log.records, in_log.unread) == (0, 3, 0)
    assert in_log.first_offsets == (0, 1, 2)
    (entry,) = (entry for _, entry in read_entries(table_of(pipeline)))
    assert (entry.kind, entry.run_id) == ("forget", "erase-1")
    assert entry.start == entry.end == committed
    (forgotten,) = entry.forgotten
    assert forgotten.before == committed
    assert KEY not in entry.to_property()
    assert set(table_of(pipeline).refs()) == {"main", TAG}
    verified(pipeline)


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_new_records_of_the_key_land_and_a_rebuild_brings_only_those(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    pipeline = landed(tableflow, kafka_topic, mode)
    forget(pipeline, KEY)
    send(kafka_topic, 7)
    pipeline.catch_up()
    rows = ids_of(pipeline)
    assert [number for number in rows if number < 10] == [7]
    verified(pipeline)
    rebuild(pipeline)
    assert ids_of(pipeline) == rows
    verified(pipeline)


def test_an_erasure_is_recorded_for_as_long_as_it_can_matter(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    forget(pipeline, KEY)

    def erased_after_a_commit(number: int) -> tuple[Any, ...]:
        send(kafka_topic, number, key="another", partition=1)
        pipeline.catch_up()
        return read_ledger(table_of(pipeline)).entry.forgotten

    (erasure,) = erased_after_a_commit(100)
    assert erasure.before == {0: 3, 1: 12}
    kafka_topic.delete_records_before(partition=0, offset=3)
    # The log still has records of the other partition, and this one may come back to it.
    assert [erasure.before for erasure in erased_after_a_commit(101)] == [{1: 12}]
    kafka_topic.delete_records_before(partition=1, offset=12)
    kafka_topic.send_bytes([b"no Avro"], partition=0)
    assert erased_after_a_commit(102) == ()
    assert {100, 101, 102} <= set(ids_of(pipeline))
    assert not objects_with_the_key(pipeline)
    verified(pipeline)


def test_a_rebuild_in_another_mode_does_not_bring_it_back(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    forget(landed(tableflow, kafka_topic, "append"), KEY)
    keyed = pipeline_of(tableflow, kafka_topic, mode="upsert", key_buckets=2)
    rebuild(keyed)
    assert all(number >= 10 for number in ids_of(keyed))
    assert objects_with_the_key(keyed) == []


def test_a_key_that_is_alone_in_its_table(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", key_buckets=1)
    for number in range(2):
        send(kafka_topic, number)
        pipeline.catch_up()
    assert forget(pipeline, KEY).table.rows == 1
    assert rows_of(pipeline) == []
    assert objects_with_the_key(pipeline) == []
    send(kafka_topic, 5)
    pipeline.catch_up()
    assert ids_of(pipeline) == [5]


def test_a_row_that_a_tombstone_removed_is_still_in_files_until_it_is_forgotten(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "upsert")
    kafka_topic.send_bytes([None], key=KEY, partition=0)
    pipeline.catch_up()
    assert objects_with_the_key(pipeline)
    report = forget(pipeline, KEY)
    assert (report.table.rows, report.table.files) == (0, 3)
    assert objects_with_the_key(pipeline) == []
    verified(pipeline)


def test_dead_letters_of_the_key_go_too_and_others_stay(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.register(NOTE)
    kafka_topic.send_bytes([b"not avro " + KEY.encode()], key=KEY, partition=0)
    kafka_topic.send_bytes([b"not avro"], key="another", partition=1)
    send(kafka_topic, 1)
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    assert objects_with_the_key(pipeline, DEAD_LETTER_SUFFIX)

    report = forget(pipeline, KEY)

    assert (report.table.rows, report.dead_letters.rows, report.dead_letters.files) == (1, 1, 1)
    assert (
        objects_with_the_key(pipeline) == objects_with_the_key(pipeline, DEAD_LETTER_SUFFIX) == []
    )
    (letter,) = letters_of(pipeline)
    assert letter["key"] == b"another"
    verified(pipeline)


def test_tags_and_branches_that_hold_the_key_go_and_others_stay(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = pipeline_of(tableflow, kafka_topic)
    send(kafka_topic, 1, key="another")
    pipeline.catch_up()
    table_of(pipeline).manage_snapshots().create_tag(head_of(pipeline), "year_end").commit()
    send(kafka_topic, 2)
    pipeline.catch_up()
    table_of(pipeline).manage_snapshots().create_branch(head_of(pipeline), "somebodys").commit()
    rebuild(pipeline)
    (of_rebuild,) = (name for name in table_of(pipeline).refs() if "before_rebuild" in name)

    dry_run = find(pipeline, KEY)
    assert set(dry_run.table.refs) == {"somebodys", of_rebuild}
    report = forget(pipeline, KEY)

    assert set(report.table.refs) == {"somebodys", of_rebuild}
    assert report.table.snapshots == dry_run.table.snapshots
    assert set(table_of(pipeline).refs()) == {"main", TAG, "year_end"}
    assert table_of(pipeline).scan(snapshot_id=_snapshot(pipeline, "year_end")).count() == 1
    assert objects_with_the_key(pipeline) == []


def _snapshot(pipeline: Pipeline, ref: str) -> int:
    return table_of(pipeline).metadata.refs[ref].snapshot_id


# --- what it leaves alone ---------------------------------------------------------------------


def test_a_dry_run_tells_the_same_and_changes_nothing(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "upsert")
    before = table_of(pipeline).metadata_location, sorted(n for n, _ in objects_of(pipeline))
    report = find(pipeline, KEY)
    assert not report.erased
    assert (
        table_of(pipeline).metadata_location,
        sorted(n for n, _ in objects_of(pipeline)),
    ) == before
    assert forget(pipeline, KEY) == replace(report, erased=True)


def test_a_key_that_nobody_has_costs_no_commit(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    commits.open_branch(
        pipeline.catalog, table_of(pipeline), head_of(pipeline), commits.REBUILD
    )  # a rebuild under way: not to be disturbed by a slip of the keyboard
    metadata = table_of(pipeline).metadata_location
    report = forget(pipeline, "nobody")
    assert report.found_nothing
    assert report.log == ()
    assert table_of(pipeline).metadata_location == metadata


def test_records_that_are_not_read_yet_are_reported_and_land(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    send(kafka_topic, 7, 8)
    (in_log,) = forget(pipeline, KEY).log
    assert (in_log.records, in_log.unread) == (5, 2)
    pipeline.catch_up()
    assert [number for number in ids_of(pipeline) if number < 10] == [7, 8]
    forget(pipeline, KEY)
    assert objects_with_the_key(pipeline) == []
    verified(pipeline)


def test_a_topic_without_a_table_is_refused(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    with pytest.raises(TableflowError, match="has no table"):
        find(pipeline_of(tableflow, kafka_topic), KEY)


def test_a_suspended_topic_can_be_forgotten_from_and_stays_suspended(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    suspend(pipeline.catalog, pipeline.topic, DataLoss("expired"))
    assert forget(pipeline, KEY).table.rows == 3
    assert objects_with_the_key(pipeline) == []
    assert suspension_of(table_of(pipeline), pipeline.topic) is not None


# --- interrupted, and beside others -----------------------------------------------------------


class Killed(BaseException):
    """As if the process had ended here."""


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_killed_anywhere_the_same_call_again_does_the_rest(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    pipeline = landed(tableflow, kafka_topic, mode)
    for number, where in enumerate(("rewrite", "seal", "_drop_refs", "expired", "purge")):
        send(kafka_topic, number)  # the key comes back, and has to go again
        pipeline.catch_up()
        with monkeypatch.context() as patch, pytest.raises(Killed):
            if where == "expired":  # its snapshots are gone, its files are not
                patch.setattr(erasure.Erasure, "_call", _expire_without_deleting)
            else:
                patch.setattr(erasure.Erasure, where, _die)
                patch.setattr(commits, "drop_branch", _die)  # nobody tidies up after a kill
            forget(pipeline, KEY)
        assert objects_with_the_key(pipeline), where

        with monkeypatch.context() as patch:
            patch.setattr(erasure, "RUNS_END_WITHIN_SECONDS", 0)
            forget(pipeline, KEY)

        assert objects_with_the_key(pipeline) == [], where
        assert branches_of(pipeline) == [], where
        assert all(number >= 10 for number in ids_of(pipeline)), where
        verified(pipeline)


def _die(*_: object, **__: object) -> None:
    raise Killed


def _expire_without_deleting(self: Any, procedure: str, arguments: str) -> None:
    if procedure == "expire_snapshots":
        main = self.table.refresh().current_snapshot().snapshot_id
        old = [s.snapshot_id for s in self.table.snapshots() if s.snapshot_id != main]
        self.table.maintenance.expire_snapshots().by_ids(old).commit()
        raise Killed
    call = f"CALL `{self.spark_catalog}`.system.{procedure}(table => '{self._name}', {arguments})"
    self.spark.sql(call).collect()


def test_a_commit_that_comes_between_is_erased_from_too(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = landed(tableflow, kafka_topic, "upsert")
    seal, others = erasure.Erasure.seal, iter([1])

    def after_another_run(self: Any, *arguments: Any) -> None:
        for _ in others:
            send(kafka_topic, 7)
            pipeline_of(tableflow, kafka_topic, mode="upsert", key_buckets=2).catch_up()
        seal(self, *arguments)

    monkeypatch.setattr(erasure.Erasure, "seal", after_another_run)
    report = forget(pipeline, KEY)
    assert report.table.rows == 1
    assert objects_with_the_key(pipeline) == []
    assert all(number >= 10 for number in ids_of(pipeline))
    verified(pipeline)


def test_a_rebuild_that_began_before_does_not_bring_it_back(
    tableflow: Tableflow, kafka_topic: KafkaTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    write, forgets = Pipeline.write, iter([1])

    def after_a_forget(self: Any, *arguments: Any) -> Any:
        for _ in forgets:
            removed = forget(pipeline_of(tableflow, kafka_topic), KEY).table.refs
            assert removed[0].startswith(commits.REBUILD)
        return write(self, *arguments)

    monkeypatch.setattr(Pipeline, "write", after_a_forget)
    with pytest.raises(Exception):  # noqa: B017  (in its own way)
        rebuild(pipeline)
    assert all(number >= 10 for number in ids_of(pipeline))
    verified(pipeline)


# --- keys as they are typed -------------------------------------------------------------------


def register_key(tableflow: Tableflow, topic: KafkaTopic, schema: Any) -> int:
    registry = SchemaRegistryClient({"url": tableflow.registry.url})
    return int(registry.register_schema(f"{topic.name}-key", Schema(json.dumps(schema), "AVRO")))


CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "name", "type": "string"}],
}
CUSTOMER_2 = CUSTOMER | {
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "region", "type": ["null", "string"], "default": None},
    ]
}


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_key_with_a_schema_is_given_as_json_whatever_version_wrote_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic, mode: str
) -> None:
    first = register_key(tableflow, kafka_topic, CUSTOMER)
    second = register_key(tableflow, kafka_topic, CUSTOMER_2)
    pipeline = pipeline_of(tableflow, kafka_topic, mode=mode, key_buckets=2)
    send(kafka_topic, 1, key=framed(first, CUSTOMER, {"name": KEY}))
    send(kafka_topic, 2, key=framed(second, CUSTOMER_2, {"name": KEY, "region": None}))
    send(kafka_topic, 3, key=framed(second, CUSTOMER_2, {"name": KEY, "region": "north"}))
    pipeline.catch_up()

    with pytest.raises(TableflowError, match="are not text") as caught:
        find(pipeline, KEY)
    assert KEY not in str(caught.value)
    report = forget(pipeline, json.dumps({"name": KEY}), "json")

    assert sum(place.records for place in report.log) == 2
    assert ids_of(pipeline) == [3]  # another region, another key
    rebuild(pipeline)
    assert ids_of(pipeline) == [3]
    for new_mode in ("append", "upsert"):
        rebuilt = pipeline_of(tableflow, kafka_topic, mode=new_mode, key_buckets=2)
        rebuild(rebuilt)
        assert ids_of(rebuilt) == [3]


@pytest.mark.parametrize(
    ("schema", "typed", "form"),
    [
        ("string", KEY, "text"),
        ("string", json.dumps(KEY), "json"),
        ({"type": "string"}, KEY, "text"),
    ],
)
def test_a_key_that_is_a_string_is_given_as_text_or_as_json(
    tableflow: Tableflow, kafka_topic: KafkaTopic, schema: Any, typed: str, form: Any
) -> None:
    schema_id = register_key(tableflow, kafka_topic, schema)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    key = framed(schema_id, {"type": "string"}, KEY)  # type: ignore[arg-type]
    send(kafka_topic, 1, key=key)
    pipeline.catch_up()
    assert forget(pipeline, typed, form).table.rows == 1
    assert objects_with_the_key(pipeline) == []
    verified(pipeline)


def test_a_key_in_hex_is_its_bytes(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    pipeline = landed(tableflow, kafka_topic, "append")
    assert find(pipeline, KEY.encode().hex(), "hex").table.rows == 3


@pytest.mark.parametrize(
    ("typed", "form", "problem"),
    [
        ("xyz-secret", "hex", "not in hex"),
        (KEY, "json", "no schema in the registry"),
    ],
)
def test_a_key_that_cannot_be_read_is_refused_without_repeating_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic, typed: str, form: Any, problem: str
) -> None:
    kafka_topic.send(PAYMENT, payments(1))
    pipeline = pipeline_of(tableflow, kafka_topic)
    pipeline.catch_up()
    with pytest.raises(TableflowError, match=problem) as caught:
        find(pipeline, typed, form)
    assert typed not in str(caught.value)


def test_reports_do_not_name_the_key() -> None:
    report = Report("t", True, forgetting.Traces(), forgetting.Traces(), ())
    assert set(report.to_json()) == {"topic", "erased", "table", "dead_letters", "log"}
    assert "secret" not in repr(erasure.Key(frozenset([b"secret"]), frozenset(["00"])))
