"""One row a key, whatever way the log takes into the table; and Debezium's envelopes."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from tableflow_assets.base.errors import ModeChanged, Suspended, UnsupportedSchema
from tableflow_assets.pipeline import NOTHING, Pipeline
from tableflow_assets.query.duckdb import connect_duckdb
from tableflow_assets.table import handle
from tableflow_assets.table.keyed import changes as keyed
from tableflow_assets.table.keyed.changes import KEYS_IN_A_QUERY, PLACES_AT_HAND
from tableflow_assets.tableflow import Tableflow
from tableflow_assets_tests.support.kafka_topics import PAYMENT, KafkaTopic, framed, payments
from tableflow_assets_tests.support.tables import (
    branches_of,
    head_of,
    ids_of,
    letters_of,
    pipeline_of,
    rows_of,
    rows_of_runs_at_once,
    table_of,
    verified,
)

DAY_ONE = int(datetime(2024, 1, 1, 12, tzinfo=UTC).timestamp() * 1000)


@dataclass(frozen=True)
class Change:
    """A record of the log; without a value, a tombstone. ``at``: milliseconds after day one."""

    key: str
    value: int | None
    partition: int = 0
    at: int = 0


def send(topic: KafkaTopic, changes: Iterable[Change]) -> None:
    schema_id = topic.register(PAYMENT)
    for change in changes:
        value = None
        if change.value is not None:
            value = framed(schema_id, PAYMENT, {"id": change.value, "amount": None})
        topic.send_bytes(
            [value],
            key=change.key.encode(),
            partition=change.partition,
            timestamp=DAY_ONE + change.at,
        )


def values_of(pipeline: Pipeline) -> dict[str, int]:
    """What the table says of each key; a key has one row."""
    rows = rows_of(pipeline)
    values = {row["_kafka"]["key"].decode(): row["id"] for row in rows}
    assert len(values) == len(rows)
    return values


def dead_of(pipeline: Pipeline) -> list[tuple[str, int]]:
    """Why each record is a dead letter, and its offset."""
    return [(letter["error"], letter["offset"]) for letter in letters_of(pipeline)]


# --- the model: written without looking at the write path --------------------------------------


def last_values(log: Iterable[Change]) -> dict[str, int]:
    """Within a partition the later record counts; of several partitions, the one with the key's
    largest timestamp, and of equal ones the higher."""
    return {
        key: value
        for key, changes in by_key(log).items()
        if (value := last_of_key(changes).value) is not None
    }


def by_key(log: Iterable[Change]) -> dict[str, list[Change]]:
    keys: dict[str, list[Change]] = defaultdict(list)
    for change in log:
        keys[change.key].append(change)
    return keys


def last_of_key(changes: list[Change]) -> Change:
    newest = max((change.at, change.partition) for change in changes)[1]
    return [change for change in changes if change.partition == newest][-1]


# --- upsert: a key's changes in one batch and in several ---------------------------------------

SOON, LATER, LAST = 1000, 2000, 3000
# What a first and a second commit bring of a key, each of the keys on its own.
WAYS_OF_A_KEY: dict[str, tuple[list[Change], list[Change]]] = {
    key: ([Change(key, *change) for change in first], [Change(key, *change) for change in second])
    for key, (first, second) in {
        "inserted": ([(1,)], []),
        "updated often in one batch": ([(1,), (2,), (3,)], []),
        "updated later": ([(1,)], [(2,), (3,)]),
        "inserted, then deleted": ([(1,), (None,)], []),
        "deleted later": ([(1,)], [(None,)]),
        "deleted and inserted in one batch": ([(1,)], [(None,), (2,)]),
        "deleted, inserted, deleted": ([(1,)], [(None,), (2,), (None,)]),
        "inserted again after its deletion": ([(1,), (None,)], [(2,)]),
        "a tombstone first": ([(None,), (1,)], []),
        "a tombstone of a key that nobody knows": ([(None,)], [(None,)]),
        "its clock goes backwards": ([(1, 0, LATER)], [(2, 0, SOON)]),
        "moved, newest first": ([(1, 1, LATER), (2, 0, SOON)], []),
        "moved, oldest first": ([(1, 0, SOON), (2, 1, LATER)], []),
        "moved later": ([(1, 0, SOON)], [(2, 1, LATER)]),
        "moved later, and it is older": ([(1, 1, LATER)], [(2, 0, SOON)]),
        "moved later, and it is as old": ([(1, 1, SOON)], [(2, 0, SOON)]),
        "moved to a higher one later, and it is as old": ([(1, 0, SOON)], [(2, 1, SOON)]),
        "moved, then deleted there": ([(1, 0, SOON)], [(2, 1, LATER), (None, 1, LAST)]),
        "an old deletion elsewhere": ([(1, 1, LATER)], [(None, 0, SOON)]),
        "moved to a new partition": ([(1, 0, SOON)], [(2, 2, LATER)]),
        "back from a new partition": ([(1, 0, SOON)], [(2, 2, LATER), (3, 0, LAST)]),
        "goes on where it was, while an older one comes": (
            [(1, 0, LATER)],
            [(2, 1, SOON), (3, 0, LAST)],
        ),
        # The second change of partition 0 has a clock behind the first, and behind partition 1.
        "goes on with its clock behind": ([(1, 0, LAST)], [(2, 0, SOON), (3, 1, LATER)]),
        "comes between its clocks": ([(1, 0, LAST), (2, 0, SOON)], [(3, 1, LATER)]),
        "is deleted with its clock behind": ([(1, 0, LAST)], [(None, 0, SOON), (3, 1, LATER)]),
    }.items()
}
FIRST_BATCH = [change for first, _ in WAYS_OF_A_KEY.values() for change in first]
SECOND_BATCH = [change for _, second in WAYS_OF_A_KEY.values() for change in second]


CHANGED = {(change.key, change.partition) for change in SECOND_BATCH}  # one last change each
WAYS_TO_DELETE = {
    "marked": PLACES_AT_HAND,
    "marked, of many changes": len(CHANGED) - 1,  # some of them replace no row
    "deleted by Spark": 0,
}


@pytest.mark.parametrize("places_at_hand", WAYS_TO_DELETE.values(), ids=WAYS_TO_DELETE)
def test_a_table_has_the_last_value_of_each_key_after_each_of_two_batches(
    tableflow: Tableflow,
    kafka_topic: KafkaTopic,
    places_at_hand: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyed, "PLACES_AT_HAND", places_at_hand)
    if places_at_hand != PLACES_AT_HAND:  # as for more changes: in the session for many rows
        monkeypatch.setattr(handle, "FEW_ROWS", 0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    send(kafka_topic, FIRST_BATCH)
    assert pipeline.catch_up().rows == len(FIRST_BATCH)
    assert values_of(pipeline) == last_values(FIRST_BATCH)
    kafka_topic.add_partitions(3)
    send(kafka_topic, SECOND_BATCH)
    assert pipeline.catch_up().rows == len(SECOND_BATCH)
    assert values_of(pipeline) == last_values(FIRST_BATCH + SECOND_BATCH)
    assert seen_by_duckdb(tableflow, pipeline) == values_of(pipeline)
    assert seen_by_spark(pipeline) == values_of(pipeline)
    assert pipeline.catch_up() == NOTHING
    verified(pipeline)


def seen_by_duckdb(tableflow: Tableflow, pipeline: Pipeline) -> dict[str, int]:
    catalog = tableflow.catalog
    with closing(connect_duckdb(catalog.connection, catalog.storage)) as connection:
        query = f'SELECT _kafka.key, id FROM "{pipeline.topic.table}"'  # noqa: S608  (our name)
        rows = connection.execute(query).fetchall()
    assert len({key for key, _ in rows}) == len(rows)
    return {bytes(key).decode(): value for key, value in rows}


def seen_by_spark(pipeline: Pipeline) -> dict[str, int]:
    rows = pipeline.spark.table(pipeline.spark_table).select("_kafka.key", "id").collect()
    assert len({row["key"] for row in rows}) == len(rows)
    return {bytes(row["key"]).decode(): row["id"] for row in rows}


def test_a_table_is_the_same_after_one_batch(tableflow: Tableflow, kafka_topic: KafkaTopic) -> None:
    kafka_topic.add_partitions(3)
    send(kafka_topic, FIRST_BATCH + SECOND_BATCH)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    done = pipeline.catch_up()
    assert len(done.snapshots) == 1
    assert values_of(pipeline) == last_values(FIRST_BATCH + SECOND_BATCH)
    # Each key counts once, in the window of its last change.
    assert done.keys_changed == ((datetime(2024, 1, 1, tzinfo=UTC), len(WAYS_OF_A_KEY)),)
    verified(pipeline)


def test_a_first_load_in_small_steps_follows_the_keys_that_moved(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    moved = [c for c in FIRST_BATCH + SECOND_BATCH if c.key.startswith("moved")]
    kafka_topic.add_partitions(3)
    send(kafka_topic, moved)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", max_records=3)
    assert len(pipeline.catch_up().snapshots) >= len(moved) / 3
    assert values_of(pipeline) == last_values(moved)
    verified(pipeline)


# --- upsert: any log, cut anyhow ---------------------------------------------------------------

PARTITIONS, COMMITS = 3, 4


@pytest.mark.parametrize("seed", range(3))
def test_how_the_log_is_cut_into_commits_makes_no_difference(
    tableflow: Tableflow, kafka_topic: KafkaTopic, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  (a test's dice)
    kafka_topic.add_partitions(PARTITIONS)
    log = [change for number in range(50) for change in random_changes(chance, f"key {number}")]
    chance.shuffle(log)
    send(kafka_topic, log)
    commits = cut(chance, log)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    read: list[Change] = []
    for commit in commits:
        read += commit
        ends = {partition: len(of_partition(read, partition)) for partition in range(PARTITIONS)}
        assert pipeline.materialize(pipeline.plan().up_to(ends)).rows == len(commit)
    assert pipeline.catch_up() == NOTHING
    expected, found = last_values(log), values_of(pipeline)
    forgotten = {key for key in by_key(log) if is_forgotten(key, commits)}
    assert len(forgotten) < 25
    assert {k: v for k, v in found.items() if k not in forgotten} == {
        k: v for k, v in expected.items() if k not in forgotten
    }


def random_changes(chance: random.Random, key: str) -> list[Change]:
    """Of one key: in one partition or in many; with deletions or without; with any clock."""
    partitions = chance.choice([[0], [1], [0, 1], [0, 1, 2]])
    deletions = chance.choice([0, 0.3])
    return [
        Change(
            key,
            None if chance.random() < deletions else chance.randrange(1_000_000),
            chance.choice(partitions),
            chance.randrange(8),
        )
        for _ in range(chance.randint(1, 7))
    ]


def cut(chance: random.Random, log: list[Change]) -> list[list[Change]]:
    """Into commits, every partition at places of its own."""
    commits: list[list[Change]] = [[] for _ in range(COMMITS)]
    for partition in range(PARTITIONS):
        changes = of_partition(log, partition)
        places = sorted(chance.randrange(len(changes) + 1) for _ in range(COMMITS - 1))
        for number, (start, end) in enumerate(pairwise([0, *places, len(changes)])):
            commits[number] += changes[start:end]
    return commits


def of_partition(log: Iterable[Change], partition: int) -> list[Change]:
    return [change for change in log if change.partition == partition]


def is_forgotten(key: str, commits: list[list[Change]]) -> bool:
    """Of a deleted key the table remembers nothing: so there is one limit, a key that is deleted, and
    in a later commit comes, older than that, through another partition."""
    for number in range(1, len(commits)):
        before = [c for commit in commits[:number] for c in commit if c.key == key]
        if not before or (last := last_of_key(before)).value is not None:
            continue
        latest = max(change.at for change in of_partition(before, last.partition))
        for change in (c for commit in commits[number:] for c in commit if c.key == key):
            is_older = (change.at, change.partition) < (latest, last.partition)
            if change.partition != last.partition and is_older:
                return True
    return False


def test_runs_at_the_same_time_leave_the_last_value_of_each_key(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    chance = random.Random(7)  # noqa: S311  (a test's dice)
    log = [
        Change(f"key {chance.randrange(9)}", chance.choice([None, n, n]), chance.randrange(2), n)
        for n in range(45)
    ]
    send(kafka_topic, log)
    pipelines = [
        pipeline_of(tableflow, kafka_topic, mode="upsert", max_records=30) for _ in range(2)
    ]
    assert rows_of_runs_at_once(pipelines) == len(log)
    assert values_of(pipelines[0]) == last_values(log)
    assert branches_of(pipelines[0]) == []
    verified(pipelines[0])


# --- upsert: few and many keys, and keys with a schema -----------------------------------------


def test_a_batch_of_many_keys_and_one_of_few_change_only_their_own(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    many = KEYS_IN_A_QUERY + 50
    batches = [
        [Change(f"key {n}", n) for n in range(many)],
        [Change(f"key {n}", 1000 + n) for n in range(5)],
        [Change(f"key {n}", None if n % 2 else 2000 + n) for n in range(3, many)],
    ]
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    log: list[Change] = []
    for batch in batches:
        send(kafka_topic, batch)
        log += batch
        pipeline.catch_up()
        assert values_of(pipeline) == last_values(log)
        verified(pipeline)


KEY = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "int"}]}
REGION = {"name": "region", "type": ["null", "string"], "default": None}
LATER_KEY = {**KEY, "fields": [*KEY["fields"], REGION]}


def test_keys_with_a_schema_are_one_when_their_content_is(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    def send_payment(number: int, schema: dict[str, Any], key: dict[str, Any]) -> None:
        schema_id = register_key(tableflow, kafka_topic, schema)
        kafka_topic.send(
            PAYMENT, payments(1, number), key=framed(schema_id, schema, key), partition=0
        )

    send_payment(1, KEY, {"id": 1})
    send_payment(2, KEY, {"id": 2})
    kafka_topic.send(PAYMENT, payments(1, 3), key=b"plain", partition=0)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    assert ids_of(pipeline) == [1, 2]
    assert dead_of(pipeline) == [("key_not_confluent_framed", 2)]
    send_payment(4, LATER_KEY, {"id": 1, "region": None})
    send_payment(5, LATER_KEY, {"id": 2, "region": "eu"})
    pipeline.catch_up()
    assert ids_of(pipeline) == [2, 4, 5]
    verified(pipeline)


def register_key(tableflow: Tableflow, topic: KafkaTopic, schema: dict[str, Any]) -> int:
    registry = SchemaRegistryClient({"url": tableflow.registry.url})
    wanted = Schema(json.dumps(schema), "AVRO")
    return int(registry.register_schema(f"{topic.name}-key", wanted))


# --- upsert: records that cannot become rows ---------------------------------------------------


def with_bad_records(topic: KafkaTopic) -> None:
    """Offsets 2 to 7: three that belong to no row, between changes of two keys."""
    send(topic, [Change("a", 10)])
    topic.send(PAYMENT, payments(1), partition=0)  # no key
    topic.send_bytes([b"no avro"], key=b"b", partition=0)
    topic.send_bytes([None], partition=0)  # neither key nor value
    send(topic, [Change("c", 12), Change("a", 13)])


def test_a_bad_record_becomes_a_dead_letter_and_its_key_keeps_its_row(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, [Change("a", 0), Change("b", 1)])
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    with_bad_records(kafka_topic)
    done = pipeline.catch_up()
    assert (done.rows, done.dead_letters, done.skipped) == (3, 3, 0)
    assert values_of(pipeline) == {"a": 13, "b": 1, "c": 12}
    letters = letters_of(pipeline)
    assert dead_of(pipeline) == [("null_key", 3), ("not_confluent_framed", 4), ("null_key", 5)]
    assert [(letter["key"], letter["value"]) for letter in letters[1:]] == [
        (b"b", b"no avro"),
        (None, None),
    ]
    verified(pipeline)


def test_bad_records_of_a_table_with_keys_can_be_skipped(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, [Change("a", 0), Change("b", 1)])
    with_bad_records(kafka_topic)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", bad_records="skip")
    done = pipeline.catch_up()
    assert (done.rows, done.dead_letters, done.skipped) == (5, 0, 3)
    assert values_of(pipeline) == {"a": 13, "b": 1, "c": 12}
    verified(pipeline)


def test_bad_records_of_a_table_with_keys_can_suspend_it(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    send(kafka_topic, [Change("a", 0), Change("b", 1)])
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert", bad_records="suspend")
    pipeline.catch_up()
    head = head_of(pipeline)
    with_bad_records(kafka_topic)
    with pytest.raises(Suspended, match=r"3 records of .*null_key at 0:3"):
        pipeline.catch_up()
    assert head_of(pipeline) == head
    assert values_of(pipeline) == {"a": 0, "b": 1}
    assert branches_of(pipeline) == []


# --- upsert: columns ---------------------------------------------------------------------------


def test_rows_of_older_versions_read_null_in_a_new_column_and_can_be_replaced(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    note = {"name": "note", "type": ["null", "string"], "default": None}
    noted = {**PAYMENT, "fields": [*PAYMENT["fields"], note]}
    for number, key in enumerate((b"a", b"b")):
        kafka_topic.send(PAYMENT, payments(1, number), key=key)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="upsert")
    pipeline.catch_up()
    kafka_topic.send(noted, [{"id": 2, "amount": None, "note": "new"}], key=b"b")
    kafka_topic.send(PAYMENT, payments(1, 3), key=b"c")
    pipeline.catch_up()
    notes = {row["_kafka"]["key"]: (row["id"], row["note"]) for row in rows_of(pipeline)}
    assert notes == {b"a": (0, None), b"b": (2, "new"), b"c": (3, None)}
    verified(pipeline)


# --- Debezium's envelopes ----------------------------------------------------------------------


def envelope(*columns: dict[str, Any]) -> dict[str, Any]:
    """As Debezium registers it: `before` has the type of the row, `after` refers to it."""
    row = {
        "type": "record",
        "name": "Value",
        "namespace": "shop.customers",
        "fields": [{"name": "id", "type": "int"}, {"name": "name", "type": "string"}, *columns],
    }
    source = {
        "type": "record",
        "name": "Source",
        "namespace": "io.debezium.connector.postgresql",
        "fields": [{"name": "table", "type": "string"}, {"name": "lsn", "type": ["null", "long"]}],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.customers",
        "fields": [
            {"name": "before", "type": ["null", row], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
    }


CUSTOMER = envelope()
EMAIL = {"name": "email", "type": ["null", "string"], "default": None}


def customer(number: int, name: str, **more: Any) -> dict[str, Any]:
    return {"id": number, "name": name, **more}


def send_event(
    topic: KafkaTopic,
    op: str,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    *,
    number: int | None = None,
    schema: dict[str, Any] = CUSTOMER,
) -> None:
    row = after or before or {"id": number}
    source = {"table": "customers", "lsn": None}
    event = {"before": before, "after": after, "source": source, "op": op, "ts_ms": 1}
    topic.send(schema, [event], key=str(row["id"]).encode(), partition=0)


def send_tombstone(topic: KafkaTopic, number: int) -> None:
    topic.send_bytes([None], key=str(number).encode(), partition=0)


def customers_of(pipeline: Pipeline) -> list[dict[str, Any]]:
    rows = [{k: v for k, v in row.items() if k != "_kafka"} for row in rows_of(pipeline)]
    return sorted(rows, key=lambda row: int(row["id"]))


def test_a_table_of_change_events_is_the_table_that_changed(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    ann, bob, cid, dan = (customer(n, name) for n, name in enumerate(("Ann", "Bob", "Cid", "Dan")))
    send_event(kafka_topic, "r", None, ann)
    for new in (bob, cid, dan):
        send_event(kafka_topic, "c", None, new)
    send_event(kafka_topic, "u", ann, customer(0, "Anna"))
    send_event(kafka_topic, "d", bob, None)
    send_tombstone(kafka_topic, 1)
    send_event(kafka_topic, "x", None, customer(8, "Nobody"))
    send_event(kafka_topic, "c", number=9)
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc")
    done = pipeline.catch_up()
    assert (done.rows, done.dead_letters) == (7, 2)
    assert dead_of(pipeline) == [("unknown_cdc_operation", 7), ("cdc_write_without_after", 8)]
    assert customers_of(pipeline) == [customer(0, "Anna"), cid, dan]
    # In another batch, with a column that the database got meanwhile.
    newer = envelope(EMAIL)
    mail = customer(2, "Cid", email="cid@example.org")
    send_event(kafka_topic, "u", cid, mail, schema=newer)
    send_event(kafka_topic, "d", dan, None, schema=newer)
    send_event(kafka_topic, "d", number=7, schema=newer)  # nobody knows it
    send_event(kafka_topic, "c", None, bob, schema=newer)  # back again
    pipeline.catch_up()
    assert customers_of(pipeline) == [
        customer(0, "Anna", email=None),
        customer(1, "Bob", email=None),
        mail,
    ]
    columns = [field.name for field in table_of(pipeline).schema().fields]
    assert sorted(columns) == ["_kafka", "email", "id", "name"]
    verified(pipeline)


def test_a_history_of_change_events_keeps_them_all(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    ann, bob = customer(0, "Ann"), customer(1, "Bob")
    send_event(kafka_topic, "c", None, ann)
    send_event(kafka_topic, "u", ann, bob)
    send_event(kafka_topic, "d", ann, None)
    send_tombstone(kafka_topic, 0)
    kafka_topic.send_bytes([b"no avro"], partition=0)
    kafka_topic.send_bytes([None], partition=0)  # it says nothing, and is kept as well
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc_history")
    done = pipeline.catch_up()
    assert (done.rows, done.dead_letters) == (5, 1)
    rows = rows_of(pipeline)
    assert [(row["op"], row["before"], row["after"]) for row in rows] == [
        ("c", None, ann),
        ("u", ann, bob),
        ("d", ann, None),
        (None, None, None),
        (None, None, None),
    ]
    assert [row["_kafka"]["key"] for row in rows] == [b"0", b"1", b"0", b"0", None]
    assert dead_of(pipeline) == [("not_confluent_framed", 4)]
    verified(pipeline)


def test_values_that_are_no_change_events_get_no_table_of_them(
    tableflow: Tableflow, kafka_topic: KafkaTopic
) -> None:
    kafka_topic.send(PAYMENT, payments(1), key=b"a")
    pipeline = pipeline_of(tableflow, kafka_topic, mode="cdc")
    with pytest.raises(UnsupportedSchema, match="is not a Debezium envelope"):
        pipeline.catch_up()
    assert tableflow.catalog.find(pipeline.topic.table) is None


# --- another mode ------------------------------------------------------------------------------


@pytest.mark.parametrize(("made_in", "now"), [("append", "upsert"), ("upsert", "cdc_history")])
def test_another_mode_than_the_tables_is_refused_and_the_rows_stay(
    tableflow: Tableflow, kafka_topic: KafkaTopic, made_in: str, now: str
) -> None:
    send(kafka_topic, [Change("a", 1), Change("b", 2)])
    pipeline = pipeline_of(tableflow, kafka_topic, mode=made_in)
    pipeline.catch_up()
    head = head_of(pipeline)
    send(kafka_topic, [Change("a", 3)])
    planned = pipeline.plan()
    other = pipeline_of(tableflow, kafka_topic, mode=now)
    for attempt in (other.plan, lambda: other.materialize(planned)):
        with pytest.raises(
            ModeChanged, match=f"created in mode {made_in}; .* now say {now}"
        ) as caught:
            attempt()
        assert f"tableflow rebuild {kafka_topic.name}" in caught.value.next_step
    assert head_of(pipeline) == head
    assert ids_of(pipeline) == [1, 2]
    pipeline.catch_up()
    assert ids_of(pipeline) == ([1, 2, 3] if made_in == "append" else [2, 3])
    verified(pipeline)
