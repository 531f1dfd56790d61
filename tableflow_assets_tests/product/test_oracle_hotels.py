"""The oracle of the River Hotels lab against rows that were worked out by hand."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tableflow_assets_tests.product.exact import average
from tableflow_assets_tests.product.log import Row, log_of, log_with_clocks
from tableflow_assets_tests.product.oracle import expected
from tableflow_assets_tests.product.oracle_hotels import parsed_time

THURSDAY = datetime(2026, 2, 5, tzinfo=UTC)
WEEK = timedelta(days=7)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
BORN = date(1980, 2, 29)


def guest(name: str, updated_at: str, created_at: str = "2026-01-01T00:00:00.000Z") -> Any:
    return "riverhotel.cdc.customer", {
        "email": "ann@x.example",
        "customer_id": "C1",
        "first_name": name,
        "last_name": "Lee",
        "birth_date": BORN,
        "created_at": created_at,
        "updated_at": updated_at,
    }


def hotel(name: str, updated_at: str, created_at: str = "2026-01-01T00:00:00.000Z") -> Any:
    return "riverhotel.cdc.hotel", {
        "hotel_id": "H1",
        "name": name,
        "category": "budget",
        "description": "Small.",
        "city": "Graz",
        "country": "Austria",
        "room_capacity": 20,
        "available_rooms": 3,
        "created_at": created_at,
        "updated_at": updated_at,
    }


def booked(booking_id: str, made: datetime = THURSDAY, price: float = 80.5, **other: Any) -> Any:
    value = {
        "booking_id": booking_id,
        "customer_email": "ann@x.example",
        "hotel_id": "H1",
        "check_in": 86_400_000,
        "check_out": 172_800_001,
        "occupants": 2,
        "price": price,
        "created_at": made,
    }
    return "bookings", value | other


def reviewed(booking_id: str, rating: int, at: datetime, text: str | None = "Fine.") -> Any:
    return "hotel_reviews", {
        "review_id": f"R-{rating}",
        "booking_id": booking_id,
        "review_rating": rating,
        "review_text": text,
        "created_at": at,
    }


def clicked(click_id: str, at: datetime, hotel_id: str = "H1", email: str = "ann@x.example") -> Any:
    return "clickstream", {
        "click_id": click_id,
        "customer_email": email,
        "hotel_id": hotel_id,
        "action": "search",
        "event_time": at,
        "url": "",
        "user_agent": "",
    }


EARLY = "2026-02-01T00:00:00.000Z"
THERE = (guest("Ann", EARLY), hotel("Inn", EARLY))


def rows(product: str, *records: Any) -> list[Row]:
    return expected(log_of(*records))[product]


def names(product: str, *records: Any) -> dict[str, tuple[str, str]]:
    return {
        row["booking_id"]: (row["customer_first_name"], row["hotel_name"])
        for row in rows(product, *records)
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-02-30T10:00:00.000Z",
        "2026-02-10T24:00:00.000Z",
        "2026-02-10T10:00:00Z",
        "2026-02-10 10:00:00",
        "2026-02-10T10:00:00.Z",
        "2026-02-10T10:00:00.1234Z",
        "2026-02-10 10:00:00.000Z",
        "2026-02-10T10:00:00.000+00:00",
        "2026-02-10T10:00:00.000Z ",
        "2026-2-10T10:00:00.000Z",
    ],
)
def test_a_time_of_another_format_is_none(text: str) -> None:
    assert parsed_time(text) is None


def test_a_time_is_read_to_the_millisecond() -> None:
    assert parsed_time("2026-02-10T11:12:13.045Z") == datetime(
        2026, 2, 10, 11, 12, 13, 45_000, tzinfo=UTC
    )


def test_a_time_may_have_fewer_digits_of_the_second() -> None:
    half = datetime(2026, 2, 10, 11, 12, 13, 500_000, tzinfo=UTC)
    assert parsed_time("2026-02-10T11:12:13.5Z") == parsed_time("2026-02-10T11:12:13.50Z") == half


def test_a_state_of_a_customer_has_all_columns() -> None:
    assert rows("customer_with_watermark", guest("Ann", "2026-02-05T00:00:00.001Z", "?")) == [
        {
            "email": "ann@x.example",
            "customer_id": "C1",
            "first_name": "Ann",
            "last_name": "Lee",
            "birth_date": BORN,
            "created_at": None,
            "updated_at": THURSDAY + MILLISECOND,
        }
    ]


def test_a_state_of_a_hotel_has_all_columns() -> None:
    assert rows("hotel_with_watermark", hotel("Inn", "2026-02-05T00:00:00.000Z")) == [
        {
            "hotel_id": "H1",
            "name": "Inn",
            "category": "budget",
            "description": "Small.",
            "city": "Graz",
            "country": "Austria",
            "room_capacity": 20,
            "available_rooms": 3,
            "created_at": datetime(2026, 1, 1, tzinfo=UTC),
            "updated_at": THURSDAY,
        }
    ]


@pytest.mark.parametrize(
    ("product", "state", "name"),
    [("customer_with_watermark", guest, "first_name"), ("hotel_with_watermark", hotel, "name")],
)
def test_states_stand_by_their_time_and_the_last_of_a_time_stays(
    product: str, state: Any, name: str
) -> None:
    actual = rows(
        product,
        state("third", "2026-02-03T00:00:00.000Z"),
        state("second", "2026-02-02T00:00:00.000Z"),
        state("lost", "2026-02-01T00:00:00.000Z"),
        state("first", "2026-02-01T00:00:00.000Z"),
        state("no time", "2026-02-04"),
    )
    assert [row[name] for row in actual] == ["first", "second", "third"]


def test_a_booking_has_all_columns_and_its_last_content() -> None:
    again = booked("B1", THURSDAY + HOUR, 90.0, check_out=5)
    assert rows("bookings_with_watermark", booked("B1"), again) == [
        {
            "booking_id": "B1",
            "customer_email": "ann@x.example",
            "hotel_id": "H1",
            "check_in": 86_400_000,
            "check_out": 5,
            "occupants": 2,
            "price": 90.0,
            "event_time": THURSDAY + HOUR,
        }
    ]


def test_a_denormalized_booking_has_all_columns() -> None:
    review = reviewed("B1", 4, THURSDAY + HOUR)
    assert rows("denormalized_hotel_bookings", review, booked("B1"), *THERE) == [
        {
            "booking_id": "B1",
            "hotel_id": "H1",
            "hotel_name": "Inn",
            "hotel_description": "Small.",
            "hotel_category": "budget",
            "hotel_city": "Graz",
            "hotel_country": "Austria",
            "booking_amount": 80.5,
            "guest_count": 2,
            "booking_date": THURSDAY,
            "check_in": datetime(1970, 1, 2, tzinfo=UTC),
            "check_out": datetime(1970, 1, 3, 0, 0, 0, 1_000, tzinfo=UTC),
            "customer_email": "ann@x.example",
            "customer_first_name": "Ann",
            "review_rating": 4,
            "review_text": "Fine.",
            "review_date": THURSDAY + HOUR,
        }
    ]


def test_a_booking_without_review_has_none() -> None:
    (row,) = rows("denormalized_hotel_bookings", booked("B1"), *THERE)
    assert (row["review_rating"], row["review_text"], row["review_date"]) == (None, None, None)


def test_a_check_out_before_its_check_in_is_kept() -> None:
    (row,) = rows("denormalized_hotel_bookings", booked("B1", check_out=-1), *THERE)
    assert row["check_in"] == datetime(1970, 1, 2, tzinfo=UTC)
    assert row["check_out"] == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    (stats,) = rows("hotel_stats", booked("B1", check_out=-1), *THERE)
    assert stats["total_bookings_count"] == 1


def test_a_review_without_booking_is_no_row() -> None:
    assert rows("denormalized_hotel_bookings", reviewed("B1", 4, THURSDAY), *THERE) == []


def test_bookings_see_the_state_of_their_time() -> None:
    changes = (
        guest("Eve", "2026-02-05T00:00:00.000Z"),
        hotel("Inn and Spa", "2026-02-05T01:00:00.000Z"),
    )
    bookings = (
        booked("B0", datetime(2026, 2, 1, tzinfo=UTC) - MILLISECOND),
        booked("B1", THURSDAY - MILLISECOND),
        booked("B2", THURSDAY),
        booked("B3", THURSDAY + HOUR),
    )
    right = {"B1": ("Ann", "Inn"), "B2": ("Eve", "Inn"), "B3": ("Eve", "Inn and Spa")}
    assert names("denormalized_hotel_bookings", *THERE, *changes, *bookings) == right
    assert names("denormalized_hotel_bookings", *bookings, *changes, *THERE) == right


def test_who_did_not_exist_when_it_was_booked_has_no_row() -> None:
    late = "2026-02-05T00:00:00.001Z"
    product = "denormalized_hotel_bookings"
    assert rows(product, booked("B1"), guest("Ann", late), hotel("Inn", EARLY)) == []
    assert rows(product, booked("B1"), guest("Ann", EARLY), hotel("Inn", late)) == []
    assert rows(product, booked("B1"), guest("Ann", "?"), hotel("Inn", EARLY)) == []


def test_the_newer_of_two_reviews_counts_and_of_one_time_the_last() -> None:
    def rating(*reviews: Any) -> int:
        (row,) = rows("denormalized_hotel_bookings", *reviews, booked("B1"), *THERE)
        return int(row["review_rating"])

    old, new = reviewed("B1", 1, THURSDAY), reviewed("B1", 5, THURSDAY + HOUR)
    assert rating(old, new) == rating(new, old) == 5
    assert rating(new, reviewed("B1", 3, THURSDAY + HOUR), old) == 3


def test_a_booking_that_moves_to_an_unknown_hotel_goes() -> None:
    moved = booked("B1", hotel_id="H2")
    assert rows("denormalized_hotel_bookings", booked("B1"), *THERE, moved) == []
    assert rows("hotel_stats", booked("B1"), *THERE, moved) == []


def test_what_kafka_has_last_counts_whatever_the_clocks_say() -> None:
    log = log_with_clocks(
        (9, guest("Ann", EARLY)),
        (8, guest("Eve", EARLY)),
        (9, hotel("Inn", EARLY)),
        (8, hotel("Spa", EARLY)),
        (9, booked("B1")),
        (8, booked("B1", price=1.0)),
        (9, reviewed("B1", 1, THURSDAY)),
        (8, reviewed("B1", 5, THURSDAY)),
    )
    (row,) = expected(log)["denormalized_hotel_bookings"]
    columns = ("customer_first_name", "hotel_name", "booking_amount", "review_rating")
    assert [row[column] for column in columns] == ["Eve", "Spa", 1.0, 5]


def test_amounts_that_are_no_numbers_add_nothing() -> None:
    prices = (math.nan, math.inf, -math.inf, 1e32, 2.5)
    bookings = [booked(f"B{number}", price=price) for number, price in enumerate(prices)]
    (row,) = rows("hotel_stats", *THERE, *bookings)
    assert (row["total_bookings_count"], row["total_booking_amount"]) == (5, 2.5)
    (row,) = rows("hotel_stats", *THERE, booked("B1", price=math.nan))
    assert (row["total_bookings_count"], row["total_booking_amount"]) == (1, None)


def test_guests_are_more_than_an_integer_holds() -> None:
    many = [booked(f"B{number}", occupants=2_000_000_000) for number in range(2)]
    (row,) = rows("hotel_stats", *THERE, *many)
    assert row["total_guest_count"] == 4_000_000_000


def test_a_week_of_a_hotel_has_all_columns() -> None:
    actual = rows(
        "hotel_stats",
        *THERE,
        *(booked("B1", THURSDAY, 0.1), booked("B2", THURSDAY + WEEK - MILLISECOND, 0.2)),
        *(booked("B3", THURSDAY + HOUR, 0.0), booked("B4", THURSDAY + WEEK)),
        *(reviewed("B1", 4, THURSDAY + WEEK), reviewed("B2", 5, THURSDAY + WEEK)),
    )
    hotel_columns = {"hotel_id": "H1", "hotel_name": "Inn", "hotel_category": "budget"}
    assert actual == [
        {
            "window_start": THURSDAY,
            "window_end": THURSDAY + WEEK,
            **hotel_columns,
            "total_bookings_count": 3,
            "total_guest_count": 6,
            "total_booking_amount": 0.3,
            "average_review_rating": Decimal("4.50"),
            "review_count": 2,
        },
        {
            "window_start": THURSDAY + WEEK,
            "window_end": THURSDAY + 2 * WEEK,
            **hotel_columns,
            "total_bookings_count": 1,
            "total_guest_count": 2,
            "total_booking_amount": 80.5,
            "average_review_rating": None,
            "review_count": 0,
        },
    ]


def test_a_hotel_renamed_within_a_week_has_two_rows() -> None:
    renamed = hotel("Spa", "2026-02-05T01:00:00.000Z")
    bookings = booked("B1"), booked("B2", THURSDAY + HOUR), booked("B3", THURSDAY + 2 * HOUR)
    actual = rows("hotel_stats", *THERE, renamed, *bookings)
    counts = [(row["hotel_name"], row["total_bookings_count"]) for row in actual]
    assert counts == [("Inn", 1), ("Spa", 2)]


def test_averages_round_half_up() -> None:
    assert average([4, 4, 4, 4, 4, 4, 4, 5]) == Decimal("4.13")
    assert average([1, 2, 2]) == Decimal("1.67")
    assert str(average([4, 5])) == "4.50"
    assert average([]) is None


def test_a_prospect_has_all_columns() -> None:
    actual = rows(
        "prospects",
        guest("Eve", "2026-02-02T00:00:00.000Z"),
        guest("Ann", EARLY),
        *(clicked("K2", THURSDAY + HOUR, "H2"), clicked("K1", THURSDAY), clicked("K3", THURSDAY)),
    )
    assert actual == [
        {
            "customer_email": "ann@x.example",
            "customer_id": "C1",
            "first_name": "Eve",
            "last_name": "Lee",
            "birth_date": BORN,
            "clicks": 3,
            "hotels": 2,
            "last_hotel_id": "H2",
            "first_click": THURSDAY,
            "last_click": THURSDAY + HOUR,
        }
    ]


def test_who_books_is_no_prospect_whenever_the_booking_arrives() -> None:
    click = clicked("K1", THURSDAY)
    assert rows("prospects", click, booked("B1")) == []
    assert rows("prospects", booked("B1"), click) == []
    (row,) = rows("prospects", click, booked("B1"), booked("B1", customer_email="bob@x.example"))
    assert row["customer_email"] == "ann@x.example"


def test_a_click_sent_again_counts_once_and_as_it_was_sent_last() -> None:
    again = clicked("K1", THURSDAY + HOUR, "H2")
    (row,) = rows("prospects", clicked("K1", THURSDAY), again, again)
    assert (row["clicks"], row["hotels"], row["last_hotel_id"]) == (1, 1, "H2")
    assert row["first_click"] == row["last_click"] == THURSDAY + HOUR


def test_of_clicks_of_one_time_the_greater_id_is_the_last() -> None:
    (row,) = rows("prospects", clicked("K9", THURSDAY, "H9"), clicked("K10", THURSDAY, "H10"))
    assert row["last_hotel_id"] == "H9"


def test_clicks_of_nobody_known_are_a_row_without_name() -> None:
    state_without_time = guest("Ann", "soon")
    (row,) = rows("prospects", state_without_time, clicked("K1", THURSDAY))
    columns = ("customer_id", "first_name", "last_name", "birth_date")
    assert [row[column] for column in columns] == [None] * 4
    assert row["clicks"] == 1
