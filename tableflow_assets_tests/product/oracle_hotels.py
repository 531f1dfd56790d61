"""The data products of the River Hotels lab, computed by loops over the log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from operator import itemgetter

from tableflow_assets_tests.product.exact import average, exact_sum
from tableflow_assets_tests.product.log import (
    Logged,
    Row,
    grouped,
    in_kafka_order,
    last_by,
    sorted_by,
)

BOOKINGS = "bookings"
REVIEWS = "hotel_reviews"
CLICKSTREAM = "clickstream"
CUSTOMER = "riverhotel.cdc.customer"
HOTEL = "riverhotel.cdc.hotel"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
# As many digits of the second as there are, up to three.
TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{1,3})Z", re.ASCII)


def parsed_time(text: str) -> datetime | None:
    match = TIME.fullmatch(text)
    if not match:
        return None
    *to_the_second, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, to_the_second)
    try:
        micros = int(fraction.ljust(6, "0"))
        return datetime(year, month, day, hour, minute, second, micros, UTC)
    except ValueError:
        return None


def customer_with_watermark(log: Sequence[Logged]) -> list[Row]:
    columns = ("email", "customer_id", "first_name", "last_name", "birth_date")
    return _states(log, CUSTOMER, columns)


def hotel_with_watermark(log: Sequence[Logged]) -> list[Row]:
    place = ("description", "city", "country", "room_capacity", "available_rooms")
    return _states(log, HOTEL, ("hotel_id", "name", "category", *place))


def _states(log: Sequence[Logged], topic: str, columns: Sequence[str]) -> list[Row]:
    """The key is the first of the columns. A state without a time is none."""
    last = last_by(log, topic, lambda state: (state[columns[0]], parsed_time(state["updated_at"])))
    states = [_with_times(state, columns) for state in last.values()]
    timed = [state for state in states if state["updated_at"] is not None]
    return sorted_by(timed, columns[0], "updated_at")


def _with_times(state: Row, columns: Sequence[str]) -> Row:
    return {
        **{column: state[column] for column in columns},
        "created_at": parsed_time(state["created_at"]),
        "updated_at": parsed_time(state["updated_at"]),
    }


def bookings_with_watermark(log: Sequence[Logged]) -> list[Row]:
    last = last_by(log, BOOKINGS, itemgetter("booking_id"))
    rows = [
        {
            "booking_id": booking["booking_id"],
            "customer_email": booking["customer_email"],
            "hotel_id": booking["hotel_id"],
            "check_in": booking["check_in"],
            "check_out": booking["check_out"],
            "occupants": booking["occupants"],
            "price": booking["price"],
            "event_time": booking["created_at"],
        }
        for booking in last.values()
    ]
    return sorted_by(rows, "booking_id")


def denormalized_hotel_bookings(log: Sequence[Logged]) -> list[Row]:
    customers = customer_with_watermark(log)
    hotels = hotel_with_watermark(log)
    reviews = _newest_reviews(log)
    rows = []
    for booking in bookings_with_watermark(log):
        booked_at = booking["event_time"]
        customer = _as_of(booked_at, customers, "email", booking["customer_email"])
        hotel = _as_of(booked_at, hotels, "hotel_id", booking["hotel_id"])
        if customer and hotel:
            review = reviews.get(booking["booking_id"])
            rows.append(_denormalized(booking, customer, hotel, review))
    return rows


def _newest_reviews(log: Sequence[Logged]) -> dict[str, Row]:
    newest: dict[str, Row] = {}
    for booking_id, reviews in grouped(log, REVIEWS, itemgetter("booking_id")).items():
        latest = max(review.value["created_at"] for review in reviews)
        of_latest = [review for review in reviews if review.value["created_at"] == latest]
        newest[booking_id] = in_kafka_order(of_latest)[-1]
    return newest


def _as_of(moment: datetime, states: list[Row], key: str, value: str) -> Row | None:
    candidates = [
        state for state in states if state[key] == value and state["updated_at"] <= moment
    ]
    return max(candidates, key=itemgetter("updated_at"), default=None)


def _denormalized(booking: Row, customer: Row, hotel: Row, review: Row | None) -> Row:
    return {
        "booking_id": booking["booking_id"],
        "hotel_id": hotel["hotel_id"],
        "hotel_name": hotel["name"],
        "hotel_description": hotel["description"],
        "hotel_category": hotel["category"],
        "hotel_city": hotel["city"],
        "hotel_country": hotel["country"],
        "booking_amount": booking["price"],
        "guest_count": booking["occupants"],
        "booking_date": booking["event_time"],
        "check_in": EPOCH + timedelta(milliseconds=booking["check_in"]),
        "check_out": EPOCH + timedelta(milliseconds=booking["check_out"]),
        "customer_email": customer["email"],
        "customer_first_name": customer["first_name"],
        "review_rating": review["review_rating"] if review else None,
        "review_text": review["review_text"] if review else None,
        "review_date": review["created_at"] if review else None,
    }


def hotel_stats(log: Sequence[Logged]) -> list[Row]:
    key = ("window_start", "window_end", "hotel_id", "hotel_name", "hotel_category")
    groups: dict[tuple[object, ...], list[Row]] = {}
    for booking in denormalized_hotel_bookings(log):
        start = EPOCH + (booking["booking_date"] - EPOCH) // WEEK * WEEK
        hotel = (booking[column] for column in key[2:])
        groups.setdefault((start, start + WEEK, *hotel), []).append(booking)
    rows = [dict(zip(key, group, strict=True)) | _stats(groups[group]) for group in groups]
    return sorted_by(rows, *key)


def _stats(bookings: list[Row]) -> Row:
    ratings = [
        booking["review_rating"] for booking in bookings if booking["review_rating"] is not None
    ]
    return {
        "total_bookings_count": len(bookings),
        "total_guest_count": sum(booking["guest_count"] for booking in bookings),
        "total_booking_amount": exact_sum(booking["booking_amount"] for booking in bookings),
        "average_review_rating": average(ratings),
        "review_count": len(ratings),
    }


def prospects(log: Sequence[Logged]) -> list[Row]:
    # Sorted by time, so that the last of an address is its newest state.
    by_time = sorted_by(customer_with_watermark(log), "updated_at")
    newest = {state["email"]: state for state in by_time}
    booked = {booking["customer_email"] for booking in bookings_with_watermark(log)}
    clicks: dict[str, list[Row]] = {}
    for click in last_by(log, CLICKSTREAM, itemgetter("customer_email", "click_id")).values():
        if click["customer_email"] not in booked:
            clicks.setdefault(click["customer_email"], []).append(click)
    return [_prospect(email, newest.get(email), clicks[email]) for email in sorted(clicks)]


def _prospect(email: str, customer: Row | None, clicks: list[Row]) -> Row:
    by_time = sorted_by(clicks, "event_time", "click_id")
    return {
        "customer_email": email,
        "customer_id": customer["customer_id"] if customer else None,
        "first_name": customer["first_name"] if customer else None,
        "last_name": customer["last_name"] if customer else None,
        "birth_date": customer["birth_date"] if customer else None,
        "clicks": len(clicks),
        "hotels": len({click["hotel_id"] for click in clicks}),
        "last_hotel_id": by_time[-1]["hotel_id"],
        "first_click": by_time[0]["event_time"],
        "last_click": by_time[-1]["event_time"],
    }
