"""Bookings whose customers, hotels and reviews change, come late or never come."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tableflow_assets_tests.product.story import (
    DAY,
    HOUR,
    MILLISECOND,
    THURSDAYS,
    Draft,
    Draw,
    Story,
    by_a_slow_clock,
    in_turn,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
INN, PALACE = "H-INN", "H-PALACE"
ANN, BOB = "ann@river.example", "bob@river.example"
"""Hotels and guests that are there since long ago, for bookings that are hostile otherwise."""

NO_TIME = ("", "yesterday", "2026-02-30T10:00:00.000Z")
NEAR_TIME = (
    "2026-02-10T10:00:00Z",
    "2026-02-10 10:00:00.000Z",
    "2026-02-10T10:00:00.000+00:00",
    "2026-02-10T10:00:00.123456Z",
)
TAKEN_BY_FLINK = (
    "2026-02-01 10:00:00",
    "2026-02-01 10:00:00.123",
    "2026-02-01T24:00:00.000Z",
    "2026-02-30T10:00:00.000Z",
)
"""No times of the format; here they are none at all."""
SHORT_TIMES = ("2026-02-01T10:00:00.5Z", "2026-02-01T10:00:00.00Z")
"""Fewer digits than the format has: times all the same."""


def stories(draw: Draw) -> list[Story]:
    several = (
        (opening, 1),
        (customer_comes_after_the_booking, 2),
        (hotel_comes_after_the_booking, 2),
        (customer_state_arrives_late, 2),
        (hotel_state_arrives_late, 1),
        (two_customer_states_of_one_time, 2),
        (two_customer_states_of_one_time_at_once, 1),
        (two_hotel_states_of_one_time, 1),
        (hotel_renamed_between_weeks, 1),
        (hotel_renamed_within_a_week, 2),
        (booking_at_the_moment_of_a_state, 2),
        (review_without_booking, 2),
        (review_before_its_booking_arrives, 2),
        (older_review_arrives_last, 2),
        (two_reviews_of_one_time, 2),
        (two_reviews_of_one_time_at_once, 1),
        (check_out_before_check_in, 2),
        (booking_sent_again, 2),
        (booking_moves_to_another_week, 1),
        (states_without_time, 2),
        (bookings_at_the_turn_of_the_week, 2),
        (booking_sent_again_by_a_slow_clock, 2),
        (states_of_one_time_by_a_slow_clock, 2),
        (reviews_of_one_time_by_slow_clocks, 2),
        (booking_moves_to_a_hotel_that_never_comes, 2),
        (times_that_flink_reads_otherwise, 1),
        (prices_that_are_no_numbers, 2),
        (more_guests_than_an_integer_holds, 2),
    )
    return [story(draw) for story, times in several for _ in range(times)]


def written(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1_000:03d}Z"


def guest(
    draw: Draw, email: str, updated_at: datetime | str, created_at: str | None = None
) -> Draft:
    value: dict[str, Any] = {
        "email": email,
        "customer_id": f"C-{email.partition('@')[0]}",
        "first_name": f"First {draw.number()}",
        "last_name": f"Last {draw.number()}",
        "birth_date": date(1960, 1, 1) + draw.random.randrange(15_000) * DAY,
        "created_at": written(LONG_AGO) if created_at is None else created_at,
        "updated_at": written(updated_at) if isinstance(updated_at, datetime) else updated_at,
    }
    return Draft("riverhotel.cdc.customer", email, value)


def hotel(
    draw: Draw, hotel_id: str, updated_at: datetime | str, created_at: str | None = None
) -> Draft:
    value: dict[str, Any] = {
        "hotel_id": hotel_id,
        "name": f"Hotel {draw.number()}",
        "category": draw.random.choice(("budget", "luxury")),
        "description": f"It stands on hill {draw.number()}.",
        "city": draw.random.choice(("Graz", "Linz")),
        "country": "Austria",
        "room_capacity": 80,
        "available_rooms": draw.random.randint(0, 80),
        "created_at": written(LONG_AGO) if created_at is None else created_at,
        "updated_at": written(updated_at) if isinstance(updated_at, datetime) else updated_at,
    }
    return Draft("riverhotel.cdc.hotel", hotel_id, value)


def booking(draw: Draw, email: str, hotel_id: str, booked_at: datetime, **other: Any) -> Draft:
    check_in = booked_at + draw.within(60 * DAY)
    value: dict[str, Any] = {
        "booking_id": f"B-{draw.number()}",
        "customer_email": email,
        "hotel_id": hotel_id,
        "check_in": (check_in - EPOCH) // MILLISECOND,
        "check_out": (check_in + draw.within(9 * DAY) - EPOCH) // MILLISECOND,
        "occupants": draw.random.randint(1, 5),
        "price": draw.price(),
        "created_at": booked_at,
    } | other
    return Draft("bookings", value["booking_id"], value)


def review(draw: Draw, booking_id: str, created_at: datetime) -> Draft:
    review_id = f"R-{draw.number()}"
    value: dict[str, Any] = {
        "review_id": review_id,
        "booking_id": booking_id,
        "review_rating": draw.random.randint(1, 5),
        "review_text": draw.random.choice((None, "Good.", "Bad.")),
        "created_at": created_at,
    }
    return Draft("hotel_reviews", review_id, value)


def opening(draw: Draw) -> Story:
    hotels = [hotel(draw, hotel_id, LONG_AGO) for hotel_id in (INN, PALACE)]
    return draw.mixed(
        *map(in_turn, [*hotels, *(guest(draw, email, LONG_AGO) for email in (ANN, BOB))])
    )


def somebody(draw: Draw) -> str:
    return f"guest{draw.number()}@river.example"


def customer_comes_after_the_booking(draw: Draw) -> Story:
    email, booked_at = somebody(draw), draw.moment()
    later = guest(draw, email, booked_at + draw.within(DAY))
    after_all = booking(draw, email, INN, booked_at + 2 * DAY)
    return draw.mixed(in_turn(booking(draw, email, INN, booked_at), later), in_turn(after_all))


def hotel_comes_after_the_booking(draw: Draw) -> Story:
    hotel_id, booked_at = f"H-{draw.number()}", draw.moment()
    later = hotel(draw, hotel_id, booked_at + MILLISECOND)
    return in_turn(later, booking(draw, ANN, hotel_id, booked_at))


def customer_state_arrives_late(draw: Draw) -> Story:
    email, first = somebody(draw), draw.moment()
    old, between, new = (guest(draw, email, first + days * DAY) for days in (0, 2, 4))
    booked = [booking(draw, email, PALACE, first + days * DAY + HOUR) for days in (0, 2, 4)]
    return [*in_turn(old, new), *draw.mixed(*map(in_turn, booked)), *in_turn(between)]


def hotel_state_arrives_late(draw: Draw) -> Story:
    hotel_id, first = f"H-{draw.number()}", draw.moment()
    old, new = hotel(draw, hotel_id, first), hotel(draw, hotel_id, first + 2 * DAY)
    booked = [booking(draw, BOB, hotel_id, first + days * DAY + HOUR) for days in (0, 2)]
    return in_turn(new, *booked, old)


def two_customer_states_of_one_time(draw: Draw) -> Story:
    email, since = somebody(draw), draw.moment()
    states = guest(draw, email, since), guest(draw, email, since)
    return draw.mixed(in_turn(*states), in_turn(booking(draw, email, INN, since + HOUR)))


def two_customer_states_of_one_time_at_once(draw: Draw) -> Story:
    email, since = somebody(draw), draw.moment()
    states = guest(draw, email, since), guest(draw, email, since)
    return [states, *in_turn(booking(draw, email, INN, since + HOUR))]


def two_hotel_states_of_one_time(draw: Draw) -> Story:
    hotel_id, since = f"H-{draw.number()}", draw.moment()
    states = hotel(draw, hotel_id, since), hotel(draw, hotel_id, since)
    return draw.mixed(in_turn(*states), in_turn(booking(draw, BOB, hotel_id, since + HOUR)))


def hotel_renamed_between_weeks(draw: Draw) -> Story:
    thursday = draw.random.choice(THURSDAYS)
    return _renamed(draw, thursday, thursday + 7 * DAY)


def hotel_renamed_within_a_week(draw: Draw) -> Story:
    thursday = draw.random.choice(THURSDAYS)
    return _renamed(draw, thursday, thursday + 2 * DAY)


def _renamed(draw: Draw, first: datetime, second: datetime) -> Story:
    hotel_id = f"H-{draw.number()}"
    names = hotel(draw, hotel_id, first), hotel(draw, hotel_id, second)
    booked = [booking(draw, ANN, hotel_id, moment + HOUR) for moment in (first, first, second)]
    rated = review(draw, booked[0].key, first + 3 * HOUR)
    return draw.mixed(in_turn(*names), in_turn(*booked), in_turn(rated))


def booking_at_the_moment_of_a_state(draw: Draw) -> Story:
    email, hotel_id, first = somebody(draw), f"H-{draw.number()}", draw.moment()
    second = first + DAY
    guests = guest(draw, email, first), guest(draw, email, second)
    hotels = hotel(draw, hotel_id, first), hotel(draw, hotel_id, second)
    moments = (first - MILLISECOND, first, second - MILLISECOND, second)
    booked = [booking(draw, email, hotel_id, moment) for moment in moments]
    return draw.mixed(in_turn(*guests), in_turn(*hotels), in_turn(*booked))


def review_without_booking(draw: Draw) -> Story:
    return in_turn(review(draw, f"B-{draw.number()}", draw.moment()))


def review_before_its_booking_arrives(draw: Draw) -> Story:
    booked = booking(draw, ANN, INN, draw.moment())
    return in_turn(review(draw, booked.key, booked.value["created_at"] + DAY), booked)


def older_review_arrives_last(draw: Draw) -> Story:
    booked = booking(draw, BOB, INN, draw.moment())
    booked_at = booked.value["created_at"]
    new, old = (review(draw, booked.key, booked_at + days * DAY) for days in (3, 1))
    return draw.mixed(in_turn(new, old), in_turn(booked))


def two_reviews_of_one_time(draw: Draw) -> Story:
    booked = booking(draw, ANN, PALACE, draw.moment())
    reviewed = booked.value["created_at"] + DAY
    reviews = review(draw, booked.key, reviewed), review(draw, booked.key, reviewed)
    return draw.mixed(in_turn(*reviews), in_turn(booked))


def two_reviews_of_one_time_at_once(draw: Draw) -> Story:
    booked = booking(draw, ANN, PALACE, draw.moment())
    reviewed = booked.value["created_at"] + DAY
    reviews = review(draw, booked.key, reviewed), review(draw, booked.key, reviewed)
    return [(booked,), reviews]


def check_out_before_check_in(draw: Draw) -> Story:
    booked = booking(draw, ANN, INN, draw.moment())
    before = booked.value["check_in"] - DAY // MILLISECOND
    return in_turn(Draft(booked.topic, booked.key, booked.value | {"check_out": before}))


def booking_sent_again(draw: Draw) -> Story:
    """With another price, and another time to another hotel."""
    booked_at = draw.moment()
    stories = []
    for hotel_id in (INN, PALACE):
        first = booking(draw, ANN, INN, booked_at)
        again = booking(draw, ANN, hotel_id, booked_at, booking_id=first.key)
        stories += [in_turn(first, again), in_turn(review(draw, first.key, booked_at + HOUR))]
    return draw.mixed(*stories)


def booking_moves_to_another_week(draw: Draw) -> Story:
    """It was the hotel's only one in its first week."""
    hotel_id, booked_at = f"H-{draw.number()}", draw.moment()
    first = booking(draw, BOB, hotel_id, booked_at)
    moved = booking(draw, BOB, hotel_id, booked_at + 7 * DAY, booking_id=first.key)
    return draw.mixed(in_turn(hotel(draw, hotel_id, LONG_AGO)), in_turn(first, moved))


def states_without_time(draw: Draw) -> Story:
    """Of a guest and a hotel that have another state, and of a guest and a hotel that have none."""
    booked_at = draw.moment() + timedelta(days=6)
    stories = []
    for has_another in (True, False):
        email, hotel_id = somebody(draw), f"H-{draw.number()}"
        no_time, near_time = draw.random.choice(NO_TIME), draw.random.choice(NEAR_TIME)
        states = [guest(draw, email, no_time), hotel(draw, hotel_id, near_time)]
        if has_another:
            states += [
                guest(draw, email, booked_at - HOUR, created_at=near_time),
                hotel(draw, hotel_id, booked_at - HOUR, created_at=no_time),
                guest(draw, email, near_time),
            ]
        booked = booking(draw, email, INN, booked_at), booking(draw, ANN, hotel_id, booked_at)
        stories += [in_turn(state) for state in states] + [in_turn(*booked)]
    return draw.mixed(*stories)


def bookings_at_the_turn_of_the_week(draw: Draw) -> Story:
    thursday = draw.random.choice(THURSDAYS)
    moments = (thursday, thursday - MILLISECOND)
    return in_turn(*(booking(draw, BOB, INN, moment) for moment in moments))


def booking_sent_again_by_a_slow_clock(draw: Draw) -> Story:
    """What Kafka has last counts, although it is the older one by its timestamp."""
    booked_at = draw.moment()
    first = booking(draw, ANN, INN, booked_at)
    again = booking(draw, ANN, PALACE, booked_at, booking_id=first.key)
    return in_turn(first, by_a_slow_clock(again))


def states_of_one_time_by_a_slow_clock(draw: Draw) -> Story:
    email, hotel_id, since = somebody(draw), f"H-{draw.number()}", draw.moment()
    guests = guest(draw, email, since), by_a_slow_clock(guest(draw, email, since))
    hotels = hotel(draw, hotel_id, since), by_a_slow_clock(hotel(draw, hotel_id, since))
    booked = booking(draw, email, hotel_id, since + HOUR)
    return draw.mixed(in_turn(*guests), in_turn(*hotels), in_turn(booked))


def reviews_of_one_time_by_slow_clocks(draw: Draw) -> Story:
    """They are in any of Kafka's partitions."""
    booked = booking(draw, BOB, PALACE, draw.moment())
    reviews = [review(draw, booked.key, booked.value["created_at"] + DAY) for _ in range(4)]
    reviews[1::2] = map(by_a_slow_clock, reviews[1::2])
    return draw.mixed(in_turn(*reviews), in_turn(booked))


def booking_moves_to_a_hotel_that_never_comes(draw: Draw) -> Story:
    booked_at = draw.moment()
    first = booking(draw, BOB, INN, booked_at)
    moved = booking(draw, BOB, f"H-{draw.number()}", booked_at, booking_id=first.key)
    return in_turn(first, moved)


def times_that_flink_reads_otherwise(draw: Draw) -> Story:
    """Each of somebody who has no other state."""
    stories = []
    for text in (*TAKEN_BY_FLINK, *SHORT_TIMES):
        email = somebody(draw)
        booked = booking(draw, email, INN, draw.moment() + 30 * DAY)
        stories += [in_turn(guest(draw, email, text, created_at=text)), in_turn(booked)]
    return draw.mixed(*stories)


def prices_that_are_no_numbers(draw: Draw) -> Story:
    """Of one hotel's only booking in a week, and of another hotel's among others."""
    hotel_id, booked_at = f"H-{draw.number()}", draw.moment()
    odd = (math.nan, math.inf, 1e33)
    alone = booking(draw, ANN, hotel_id, booked_at, price=draw.random.choice(odd))
    among = [booking(draw, ANN, INN, booked_at, price=price) for price in (*odd, 12.5)]
    return draw.mixed(in_turn(hotel(draw, hotel_id, LONG_AGO)), in_turn(alone), in_turn(*among))


def more_guests_than_an_integer_holds(draw: Draw) -> Story:
    hotel_id, booked_at = f"H-{draw.number()}", draw.moment()
    many = [booking(draw, ANN, hotel_id, booked_at, occupants=2_000_000_000) for _ in range(2)]
    return draw.mixed(in_turn(hotel(draw, hotel_id, LONG_AGO)), in_turn(*many))
