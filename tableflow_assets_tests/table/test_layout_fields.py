"""Terms of the settings as fields of Iceberg, without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection
from pyiceberg.transforms import BucketTransform, DayTransform, HourTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DoubleType,
    IntegerType,
    ListType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

from tableflow_assets.base.errors import SettingsError
from tableflow_assets.settings.settings import Settings, Topic
from tableflow_assets.table.layout import Layout, layout_of


def column(number: int, name: str, kind: Any) -> NestedField:
    return NestedField(number, name, kind, required=False)


SCHEMA = Schema(
    column(1, "id", IntegerType()),
    column(2, "ts", TimestamptzType()),
    column(3, "born", DateType()),
    column(4, "city", StringType()),
    column(5, "ts_day", StringType()),
    column(6, "share", DoubleType()),
    column(7, "address", StructType(column(8, "zip", StringType()))),
    column(9, "tags", ListType(10, StringType(), element_required=False)),
    column(11, "a_x002E_b", IntegerType()),  # the field `a.b`
    column(12, "2nd höhe", IntegerType()),
    column(13, "address_zip", IntegerType()),
    column(
        20,
        "_kafka",
        StructType(
            column(21, "timestamp", TimestamptzType()), column(22, "key_hash", BinaryType())
        ),
    ),
)


def topic(**options: Any) -> Topic:
    settings_topic = Settings(state_dir=Path("/nowhere")).topic_named("t")
    assert settings_topic is not None
    return settings_topic.model_copy(update=options)


def layout(*partition_by: str, **options: Any) -> Layout:
    return layout_of(topic(partition_by=partition_by, **options), SCHEMA)


@pytest.mark.parametrize(
    ("term", "name", "transform", "source"),
    [
        ("window", "_kafka_window", "day", 21),
        ("id", "id", "identity", 1),
        ("days(born)", "born_day", "day", 3),
        ("hours( ts )", "ts_hour", "hour", 2),
        ("months(ts)", "ts_month", "month", 2),
        ("years(born)", "born_year", "year", 3),
        ("bucket(16, id)", "id_bucket_16", "bucket[16]", 1),
        ("truncate(3,city)", "city_trunc_3", "truncate[3]", 4),
        ("truncate(3, address.zip)", "address_zip_trunc_3", "truncate[3]", 8),
        ("bucket(2, `a.b`)", "a_b_bucket_2", "bucket[2]", 11),
        ("bucket(2, a_x002E_b)", "a_x002E_b_bucket_2", "bucket[2]", 11),
        ("bucket(2, `2nd höhe`)", "_2nd_h_he_bucket_2", "bucket[2]", 12),
        # A name that a column has already is none for a partition.
        ("days(ts)", "ts_day_2", "day", 2),
        ("address.zip", "address_zip_2", "identity", 8),
    ],
)
def test_a_term_is_a_field(term: str, name: str, transform: str, source: int) -> None:
    (field,) = layout(term).partitions.fields
    assert (field.name, str(field.transform), field.source_id) == (name, transform, source)
    assert field.field_id == 1000


def test_the_window_of_hours() -> None:
    (field,) = layout("window", window="hour").partitions.fields
    assert field.transform == HourTransform()


def test_tables_with_keys_are_laid_out_by_key_alone() -> None:
    (field,) = layout("days(ts)", mode="upsert", key_buckets=3).partitions.fields
    assert field.name == "_kafka_key_bucket_3"
    assert (field.source_id, field.transform) == (22, BucketTransform(3))


@pytest.mark.parametrize(
    ("terms", "parts"),
    [
        (
            ["days(tss)"],
            ["'days(tss)'", "no column tss", "the table has: id, ts, born", "mean ts?"],
        ),
        (["bucket(4, address.zp)"], ["no column address.zp", "address has: zip", "mean zip?"]),
        (["`no such`"], ["no column `no such`"]),
        (["id.x"], ["id is not a struct", "int"]),
        (["days(city)"], ["city is of type string"]),
        (["hours(born)"], ["born is of type date"]),
        (["bucket(4, share)"], ["share is of type double"]),
        (["truncate(4, ts)"], ["ts is of type timestamptz"]),
        (["tags"], ["tags is of type list<string>"]),
        (["tags.element"], ["tags is not a struct"]),
        (["address"], ["address is of type struct<zip: string>"]),
        (["window", "hours(_kafka.timestamp)"], ["a time of the same column"]),
        (["window", "days(_kafka.timestamp)"], ["another term says the same"]),
        (["bucket(4, id)", "bucket(4, `id`)"], ["another term says the same"]),
    ],
)
def test_what_does_not_fit_the_columns_is_named(terms: list[str], parts: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        layout(*terms)
    assert [part for part in parts if part not in str(caught.value)] == []
    assert caught.value.next_step


def test_the_order_of_rows() -> None:
    order = layout("window", sort_by=("city", "address.zip desc", "id ASC")).order
    sort_fields = [(field.source_id, field.direction, field.null_order) for field in order.fields]
    assert sort_fields == [
        (4, SortDirection.ASC, NullOrder.NULLS_FIRST),
        (8, SortDirection.DESC, NullOrder.NULLS_LAST),
        (1, SortDirection.ASC, NullOrder.NULLS_FIRST),
    ]
    assert layout("window").order.is_unsorted
    with pytest.raises(SettingsError, match="tags is of type list<string>"):
        layout("window", sort_by=("tags",))


def test_a_field_that_comes_back_is_the_same_and_a_new_one_is_not_mistaken_for_it() -> None:
    by_day = PartitionSpec(PartitionField(21, 1000, DayTransform(), "_kafka_window"))
    by_id = PartitionSpec(PartitionField(1, 1001, BucketTransform(4), "mine"), spec_id=1)
    new_layout = layout_of(
        topic(window="hour", partition_by=("window", "bucket(4, id)", "bucket(5, id)")),
        SCHEMA,
        [by_day, by_id],
    )
    assert [(field.field_id, field.name) for field in new_layout.partitions.fields] == [
        (1002, "_kafka_window_2"),  # the other one is of days
        (1001, "mine"),
        (1003, "id_bucket_5"),
    ]
