"""The River Hotels lab: keys that match in time, changing dimensions, prospects and reviews."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tableflow_assets.labs import records
from tableflow_assets.labs.hotel_chain import CUSTOMER, HOTEL
from tableflow_assets.labs.river_hotels import BOOKINGS, CLICKSTREAM, REVIEWS
from tableflow_assets_tests.labs.conftest import LabSample

CDC_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"


def values(sample: LabSample, topic: str) -> list[dict[str, Any]]:
    return [record.value for record in sample[topic]]


def parsed(text: object) -> datetime:
    return datetime.strptime(str(text), CDC_TIME).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("child", "reference", "parent", "parent_key"),
    [
        (CLICKSTREAM, "customer_email", CUSTOMER, "email"),
        (CLICKSTREAM, "hotel_id", HOTEL, "hotel_id"),
        (BOOKINGS, "customer_email", CUSTOMER, "email"),
        (BOOKINGS, "hotel_id", HOTEL, "hotel_id"),
        (REVIEWS, "booking_id", BOOKINGS, "booking_id"),
    ],
)
def test_children_follow_their_parents(
    child: str, reference: str, parent: str, parent_key: str
) -> None:
    known: set[object] = set()
    checked = 0
    for record in records(seed=7, count=5_000):
        if record.topic == parent:
            known.add(record.value[parent_key])
        if record.topic == child:
            assert record.value[reference] in known
            checked += 1
    assert checked > 50


def test_a_temporal_join_finds_customer_and_hotel_of_every_booking(sample: LabSample) -> None:
    """The dimension row valid at the booking's own time exists."""
    began = {row["email"]: parsed(row["updated_at"]) for row in reversed(values(sample, CUSTOMER))}
    began |= {row["hotel_id"]: parsed(row["updated_at"]) for row in reversed(values(sample, HOTEL))}
    for booking in values(sample, BOOKINGS):
        assert began[booking["customer_email"]] <= booking["created_at"]
        assert began[booking["hotel_id"]] <= booking["created_at"]


@pytest.mark.parametrize(("topic", "key"), [(CUSTOMER, "email"), (HOTEL, "hotel_id")])
def test_dimension_rows_change_over_time(topic: str, key: str, sample: LabSample) -> None:
    newest: dict[str, dict[str, Any]] = {}
    changes = 0
    for row in values(sample, topic):
        before = newest.get(row[key])
        if before:
            assert row["created_at"] == before["created_at"]
            assert parsed(row["updated_at"]) > parsed(before["updated_at"])
            changes += 1
        else:
            assert row["created_at"] == row["updated_at"]
        newest[row[key]] = row
    assert changes > 0


def test_hotels_are_renamed_and_keep_within_their_rooms() -> None:
    names: dict[object, set[object]] = {}
    for record in records(seed=7, count=500, topics=[HOTEL]):
        names.setdefault(record.key, set()).add(record.value["name"])
        assert (
            0
            <= int(str(record.value["available_rooms"]))
            <= int(str(record.value["room_capacity"]))
        )
    assert max(len(different) for different in names.values()) > 1


def test_cdc_times_are_text_with_milliseconds() -> None:
    start = datetime(2026, 3, 1, 8, 30, 5, 67_000, tzinfo=UTC)
    first = next(records(seed=7, count=1, start=start, topics=[CUSTOMER], step=timedelta(0)))
    assert first.value["updated_at"] == "2026-03-01T08:30:05.067Z"


def test_some_customers_click_but_never_book(sample: LabSample) -> None:
    clicked = {click["customer_email"] for click in values(sample, CLICKSTREAM)}
    booked = {booking["customer_email"] for booking in values(sample, BOOKINGS)}
    assert len(clicked - booked) >= 5
    assert len(booked) > len(clicked - booked)


def test_every_booking_follows_a_click_on_book(sample: LabSample) -> None:
    clicks = Counter(
        (click["customer_email"], click["hotel_id"])
        for click in values(sample, CLICKSTREAM)
        if click["action"] == "book"
    )
    bookings = Counter((b["customer_email"], b["hotel_id"]) for b in values(sample, BOOKINGS))
    assert bookings <= clicks


def test_some_clicks_arrive_late(sample: LabSample) -> None:
    delays = [
        datetime.fromtimestamp(r.timestamp_ms / 1000, UTC) - r.value["event_time"]  # type: ignore[operator]
        for r in sample[CLICKSTREAM]
    ]
    late = sum(delay >= timedelta(minutes=1) for delay in delays)
    assert 0.01 < late / len(delays) < 0.06


def test_some_bookings_are_reviewed_once(sample: LabSample) -> None:
    reviews = values(sample, REVIEWS)
    assert max(Counter(review["booking_id"] for review in reviews).values()) == 1
    assert 0.2 < len(reviews) / len(sample[BOOKINGS]) < 0.6
    assert {review["review_rating"] for review in reviews} == {1, 2, 3, 4, 5}


def test_stays_begin_after_the_booking_and_end_after_they_begin(sample: LabSample) -> None:
    for record in sample[BOOKINGS]:
        booking: dict[str, Any] = record.value
        assert record.timestamp_ms < booking["check_in"] < booking["check_out"]
        assert booking["occupants"] >= 1
        assert booking["price"] > 0
