"""Every hostile case, as something to be counted in the records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise, permutations
from typing import Any, NamedTuple

from tableflow_assets_tests.product.hostile import Sent
from tableflow_assets_tests.product.oracle_hotels import parsed_time

PAYMENTS = "payments"
ORDERS = "shiftleft.public.orders"
LINES = "shiftleft.public.order_items"
SHOPPERS = "shiftleft.public.customers"
PRODUCTS = "shiftleft.public.products"
BOOKINGS = "bookings"
REVIEWS = "hotel_reviews"
CLICKS = "clickstream"
GUESTS = "riverhotel.cdc.customer"
HOTELS = "riverhotel.cdc.hotel"

MILLISECOND = timedelta(milliseconds=1)
DAY = timedelta(days=1)
WEEK = 7 * DAY
KEYS_OF_TOPICS = {
    PAYMENTS: "confirmation_code",
    ORDERS: "orderid",
    LINES: "orderitemid",
    SHOPPERS: "customerid",
    PRODUCTS: "productid",
    BOOKINGS: "booking_id",
    GUESTS: "email",
    HOTELS: "hotel_id",
    CLICKS: "click_id",
}
THURSDAY = datetime.fromisoformat("1970-01-01T00:00:00+00:00")

Records = Sequence[Sent]


class Arrived(NamedTuple):
    at: int
    timestamp_ms: int
    value: dict[str, Any]


def of(records: Records, topic: str) -> list[Arrived]:
    return [
        Arrived(at, sent.timestamp_ms, sent.value)
        for at, sent in enumerate(records)
        if sent.topic == topic
    ]


def by(records: Records, topic: str, column: str) -> dict[Any, list[Arrived]]:
    records_by_key: dict[Any, list[Arrived]] = {}
    for record in of(records, topic):
        records_by_key.setdefault(record.value[column], []).append(record)
    return records_by_key


def pairs(records: Records, topic: str, column: str) -> Iterator[tuple[Arrived, Arrived]]:
    """Two records of one key, in the order of their arrival."""
    for states in by(records, topic, column).values():
        yield from (
            (earlier, later) for earlier, later in permutations(states, 2) if earlier.at < later.at
        )


def paid(records: Records) -> Iterator[tuple[Arrived, list[Arrived]]]:
    """Payments with all states of their order."""
    orders = by(records, ORDERS, "orderid")
    for payment in of(records, PAYMENTS):
        if payment.value["order_id"] in orders:
            yield payment, orders[payment.value["order_id"]]


def ages(records: Records) -> list[timedelta]:
    """How long after the newest state of its order a payment was made."""
    return [pay.value["ts"] - states[-1].value["orderdate"] for pay, states in paid(records)]


def in_time(payment: Arrived, order: Arrived) -> bool:
    age: timedelta = payment.value["ts"] - order.value["orderdate"]
    return timedelta(0) <= age <= 4 * DAY


def moved(records: Records, before: bool, after: bool) -> int:
    return sum(
        (in_time(payment, states[0]), in_time(payment, states[-1])) == (before, after)
        and states[0].at < payment.at < states[-1].at
        for payment, states in paid(records)
    )


def same(records: Records, topic: str, key: str, time: str, at_once: bool = False) -> int:
    """Different records of one key and one event time."""
    return sum(
        earlier.value[time] == later.value[time]
        and earlier.value != later.value
        and (earlier.timestamp_ms == later.timestamp_ms or not at_once)
        for earlier, later in pairs(records, topic, key)
    )


def again(records: Records, topic: str, key: str, *changed: str) -> int:
    """Records that are sent again, with these columns changed; without any, unchanged."""
    return sum(
        all(earlier.value[column] != later.value[column] for column in changed)
        if changed
        else earlier.value == later.value
        for earlier, later in pairs(records, topic, key)
    )


def order_ids(records: Records, number: int | None) -> int:
    return sum(payment.value["order_id"] == number for payment in of(records, PAYMENTS))


def alone(records: Records, topic: str, column: str, other: str, others: str) -> int:
    """Keys of a topic that another topic never has."""
    return len(by(records, topic, column).keys() - by(records, other, others).keys())


def parents_of_lines(records: Records, topic: str) -> Iterator[tuple[Arrived, list[Arrived]]]:
    orders = by(records, ORDERS, "orderid")
    parents = by(
        records, topic, {ORDERS: "orderid", PRODUCTS: "productid"}.get(topic, "customerid")
    )
    for line in of(records, LINES):
        key = line.value["productid" if topic == PRODUCTS else "orderid"]
        if topic == SHOPPERS:
            placed = orders.get(key)
            key = placed[-1].value["customerid"] if placed else None
        if key is not None:
            yield line, parents.get(key, [])


def waiting(records: Records, topic: str) -> int:
    lines = parents_of_lines(records, topic)
    return sum(bool(parents) and line.at < parents[0].at for line, parents in lines)


def forlorn(records: Records, topic: str) -> int:
    return sum(not parents for _, parents in parents_of_lines(records, topic))


def sold(records: Records, fits: Callable[[datetime, list[datetime]], bool]) -> int:
    """Lines whose order's date fits to the times of the product's states, which are sorted."""
    orders = by(records, ORDERS, "orderid")
    states = by(records, PRODUCTS, "productid")
    return sum(
        fits(
            orders[line.value["orderid"]][-1].value["orderdate"],
            sorted(state.value["updatedat"] for state in states[line.value["productid"]]),
        )
        for line in of(records, LINES)
        if line.value["orderid"] in orders and line.value["productid"] in states
    )


def before_the_newest(records: Records, age: timedelta) -> int:
    """Orders of a customer that are older than the newest by this much."""
    newest_states = [states[-1].value for states in by(records, ORDERS, "orderid").values()]
    dates: dict[int, list[datetime]] = {}
    for order in newest_states:
        dates.setdefault(order["customerid"], []).append(order["orderdate"])
    return sum(max(order_dates) - age in order_dates for order_dates in dates.values())


def of_one_name(records: Records) -> int:
    customers = by(records, SHOPPERS, "customername").values()
    return sum(
        len({record.value["customerid"] for record in records_of_name}) > 1
        for records_of_name in customers
    )


def booked(records: Records, topic: str) -> Iterator[tuple[Arrived, list[tuple[datetime, int]]]]:
    """Bookings with the times (and arrivals) of the states of their customer or hotel."""
    key, column = ("email", "customer_email") if topic == GUESTS else ("hotel_id", "hotel_id")
    states = by(records, topic, key)
    for booking in of(records, BOOKINGS):
        timed = [
            (time, state.at)
            for state in states.get(booking.value[column], [])
            if (time := parsed_time(state.value["updated_at"]))
        ]
        yield booking, timed


def not_yet_there(records: Records, topic: str) -> int:
    return sum(
        bool(states) and booking.value["created_at"] < min(states)[0]
        for booking, states in booked(records, topic)
    )


def at_a_state(records: Records, topic: str, before: timedelta) -> int:
    return sum(
        booking.value["created_at"] + before in [time for time, _ in states]
        for booking, states in booked(records, topic)
    )


def late_states(records: Records, topic: str) -> int:
    """An older state arrives after a newer one, and after a booking that it is about."""
    count = 0
    for booking, states in booked(records, topic):
        for (newer, first), (older, second) in permutations(states, 2):
            count += older < newer and first < second and booking.at < second
    return count


def week_of(moment: datetime) -> int:
    return (moment - THURSDAY) // WEEK


def renamed(records: Records, within_a_week: bool) -> int:
    """Hotels that have bookings before and after a new name, in the same week or in others."""
    count = 0
    bookings = by(records, BOOKINGS, "hotel_id")
    for hotel_id, states in by(records, HOTELS, "hotel_id").items():
        times = sorted(
            time for record in states if (time := parsed_time(record.value["updated_at"]))
        )
        bookings_made = sorted(record.value["created_at"] for record in bookings.get(hotel_id, []))
        count += any(
            times[0] <= earlier < time <= later
            and (week_of(earlier) == week_of(later)) == within_a_week
            for time in times[1:]
            for earlier, later in pairwise(bookings_made)
        )
    return count


def review_pairs(records: Records, arrives: Callable[[Arrived, Arrived], bool]) -> int:
    return sum(arrives(earlier, later) for earlier, later in pairs(records, REVIEWS, "booking_id"))


def early_reviews(records: Records) -> int:
    bookings = by(records, BOOKINGS, "booking_id")
    return sum(
        review.value["booking_id"] in bookings
        and review.at < bookings[review.value["booking_id"]][0].at
        for review in of(records, REVIEWS)
    )


def at_the_week(records: Records, before: timedelta) -> int:
    offsets = [(record.value["created_at"] + before - THURSDAY) for record in of(records, BOOKINGS)]
    return sum(record % WEEK == timedelta(0) for record in offsets)


def without_time(records: Records, topic: str, column: str, near: bool) -> int:
    """Times that cannot be parsed; near ones begin as a time does."""
    return sum(
        parsed_time(state.value[column]) is None
        and state.value[column].startswith("2026-02-10") == near
        for state in of(records, topic)
    )


def booking_clickers(records: Records) -> int:
    bookings = by(records, BOOKINGS, "customer_email")
    return sum(
        email in bookings and clicks[0].at < bookings[email][0].at
        for email, clicks in by(records, CLICKS, "customer_email").items()
    )


def by_slow_clocks(records: Records, topic: str, key: str) -> int:
    """Records that differ from one before them, and have the older timestamp."""
    return sum(
        later.timestamp_ms < earlier.timestamp_ms and later.value != earlier.value
        for earlier, later in pairs(records, topic, key)
    )


def moves_nowhere(records: Records) -> int:
    """Bookings that are sent again with a hotel that never comes."""
    hotels = by(records, HOTELS, "hotel_id").keys()
    return sum(
        earlier.value["hotel_id"] in hotels and later.value["hotel_id"] not in hotels
        for earlier, later in pairs(records, BOOKINGS, "booking_id")
    )


def updated_at(records: Records, pattern: str) -> int:
    states = of(records, GUESTS)
    return sum(bool(re.fullmatch(pattern, state.value["updated_at"])) for state in states)


def not_a_number(records: Records, topic: str) -> int:
    return sum(not math.isfinite(record.value["price"]) for record in of(records, topic))


SEVERAL: dict[str, Callable[[Records], int]] = {
    "a payment arrives before its order": lambda r: sum(
        pay.at < states[0].at for pay, states in paid(r)
    ),
    "a payment is reported weeks late": lambda r: sum(
        pay.timestamp_ms / 1_000 - pay.value["ts"].timestamp() > 14 * 86_400
        and in_time(pay, states[-1])
        for pay, states in paid(r)
    ),
    "a payment is made weeks late": lambda r: sum(age >= 14 * DAY for age in ages(r)),
    "a payment is made before the order": lambda r: sum(age < -MILLISECOND for age in ages(r)),
    "a payment is made 1 ms before the order": lambda r: ages(r).count(-MILLISECOND),
    "a payment is made with the order": lambda r: ages(r).count(timedelta(0)),
    "a payment is made exactly after 96 hours": lambda r: ages(r).count(4 * DAY),
    "a payment is made after 96 hours and 1 ms": lambda r: ages(r).count(4 * DAY + MILLISECOND),
    "two payments of one time": lambda r: same(r, PAYMENTS, "order_id", "ts"),
    "two payments of one time at once": lambda r: same(r, PAYMENTS, "order_id", "ts", at_once=True),
    "a payment is repeated": lambda r: again(r, PAYMENTS, "confirmation_code"),
    "an earlier payment arrives later": lambda r: sum(
        later.value["ts"] < earlier.value["ts"] for earlier, later in pairs(r, PAYMENTS, "order_id")
    ),
    "a payment has no order_id": lambda r: order_ids(r, None),
    "a payment is without a card": lambda r: sum(
        pay.value["cc_number"] is None for pay in of(r, PAYMENTS)
    ),
    "an order moves out of the 96 hours": lambda r: moved(r, before=True, after=False),
    "an order moves into the 96 hours": lambda r: moved(r, before=False, after=True),
    "an order is never paid": lambda r: alone(r, ORDERS, "orderid", PAYMENTS, "order_id"),
    "a payment is without its order": lambda r: alone(r, PAYMENTS, "order_id", ORDERS, "orderid"),
    "an order before the first price": lambda r: sold(r, lambda at, prices: at < prices[0]),
    "an order between two prices": lambda r: sold(
        r, lambda at, prices: prices[0] < at < prices[-1]
    ),
    "an order after the last of several prices": lambda r: sold(
        r, lambda at, prices: len(prices) > 1 and prices[-1] < at
    ),
    "an order at the moment of a price": lambda r: sold(r, lambda at, prices: at in prices[1:]),
    "an order 1 ms before a price": lambda r: sold(
        r, lambda at, prices: at + MILLISECOND in prices[1:]
    ),
    "two prices of one time": lambda r: same(r, PRODUCTS, "productid", "updatedat"),
    "a shop customer is renamed": lambda r: again(r, SHOPPERS, "customerid", "customername"),
    "two customers of one name": of_one_name,
    "a line has another quantity": lambda r: again(r, LINES, "orderitemid", "quantity"),
    "an order is 45 days older than the newest": lambda r: before_the_newest(r, 45 * DAY),
    "an order is exactly 30 days older than the newest": lambda r: before_the_newest(r, 30 * DAY),
    "an order is 30 days and 1 ms older than the newest": lambda r: before_the_newest(
        r, 30 * DAY + MILLISECOND
    ),
    "a customer is not yet there": lambda r: not_yet_there(r, GUESTS),
    "a hotel is not yet there": lambda r: not_yet_there(r, HOTELS),
    "a customer's older state arrives late": lambda r: late_states(r, GUESTS),
    "two states of a customer of one time": lambda r: same(r, GUESTS, "email", "updated_at"),
    "a hotel is renamed within a week": lambda r: renamed(r, within_a_week=True),
    "a booking at the moment of a customer's state": lambda r: at_a_state(r, GUESTS, 0 * DAY),
    "a booking at the moment of a hotel's state": lambda r: at_a_state(r, HOTELS, 0 * DAY),
    "a booking 1 ms before a customer's state": lambda r: at_a_state(r, GUESTS, MILLISECOND),
    "a booking 1 ms before a hotel's state": lambda r: at_a_state(r, HOTELS, MILLISECOND),
    "a review is without booking": lambda r: alone(
        r, REVIEWS, "booking_id", BOOKINGS, "booking_id"
    ),
    "a review comes before its booking": early_reviews,
    "a newer and then an older review": lambda r: review_pairs(
        r, lambda earlier, later: later.value["created_at"] < earlier.value["created_at"]
    ),
    "two reviews of one time": lambda r: same(r, REVIEWS, "booking_id", "created_at"),
    "a check-out before its check-in": lambda r: sum(
        booking.value["check_out"] < booking.value["check_in"] for booking in of(r, BOOKINGS)
    ),
    "a booking has another price": lambda r: again(r, BOOKINGS, "booking_id", "price"),
    "a booking has another hotel": lambda r: again(r, BOOKINGS, "booking_id", "hotel_id"),
    "a customer's updated_at is no time": lambda r: without_time(r, GUESTS, "updated_at", False),
    "a customer's updated_at is nearly a time": lambda r: without_time(
        r, GUESTS, "updated_at", True
    ),
    "a customer's created_at is nearly a time": lambda r: without_time(
        r, GUESTS, "created_at", True
    ),
    "a hotel's updated_at is nearly a time": lambda r: without_time(r, HOTELS, "updated_at", True),
    "a hotel's created_at is no time": lambda r: without_time(r, HOTELS, "created_at", False),
    "a booking at the turn of the week": lambda r: at_the_week(r, 0 * DAY),
    "a booking 1 ms before the turn of the week": lambda r: at_the_week(r, MILLISECOND),
    "somebody clicks and books later": booking_clickers,
    "somebody clicks and never books": lambda r: alone(
        r, CLICKS, "customer_email", BOOKINGS, "customer_email"
    ),
    "somebody unknown clicks": lambda r: alone(r, CLICKS, "customer_email", GUESTS, "email"),
    "a click is repeated": lambda r: again(r, CLICKS, "click_id"),
    **{
        f"{topic} has a later record with an older timestamp": partial(
            by_slow_clocks, topic=topic, key=key
        )
        for topic, key in KEYS_OF_TOPICS.items()
    },
    "payments of an order have timestamps in any order": partial(
        by_slow_clocks, topic=PAYMENTS, key="order_id"
    ),
    "reviews of a booking have timestamps in any order": partial(
        by_slow_clocks, topic=REVIEWS, key="booking_id"
    ),
    "a booking moves to a hotel that never comes": moves_nowhere,
    "a price of a booking is no number": partial(not_a_number, topic=BOOKINGS),
    "guests are more than an integer holds": lambda r: sum(
        booking.value["occupants"] > 2**30 for booking in of(r, BOOKINGS)
    ),
}
"""Cases that are there more than once."""

ONCE: dict[str, Callable[[Records], int]] = {
    "an order has the number 0": lambda r: len(by(r, ORDERS, "orderid").get(0, [])),
    "a payment is for the order 0": lambda r: order_ids(r, 0),
    "two prices of one time at once": lambda r: same(
        r, PRODUCTS, "productid", "updatedat", at_once=True
    ),
    "two states of a customer of one time at once": lambda r: same(
        r, GUESTS, "email", "updated_at", at_once=True
    ),
    "two reviews of one time at once": lambda r: same(
        r, REVIEWS, "booking_id", "created_at", at_once=True
    ),
    "two states of a hotel of one time": lambda r: same(r, HOTELS, "hotel_id", "updated_at"),
    "a hotel's older state arrives late": lambda r: late_states(r, HOTELS),
    "a line comes before its order": lambda r: waiting(r, ORDERS),
    "a line stays without its order": lambda r: forlorn(r, ORDERS),
    "a line comes before its product": lambda r: waiting(r, PRODUCTS),
    "a line stays without its product": lambda r: forlorn(r, PRODUCTS),
    "a line comes before its customer": lambda r: waiting(r, SHOPPERS),
    "a line stays without its customer": lambda r: forlorn(r, SHOPPERS),
    "a hotel is renamed between weeks": lambda r: renamed(r, within_a_week=False),
    "a line has another order": lambda r: again(r, LINES, "orderitemid", "orderid"),
    "an order has another customer": lambda r: again(r, ORDERS, "orderid", "customerid"),
    "a booking has another customer": lambda r: again(r, BOOKINGS, "booking_id", "customer_email"),
    "a price of a product is no number": partial(not_a_number, topic=PRODUCTS),
    "a time with a space": partial(updated_at, pattern=r".* \d\d:\d\d:\d\d"),
    "a time with a space and milliseconds": partial(
        updated_at, pattern=r".* \d\d:\d\d:\d\d\.\d{3}"
    ),
    "a time of the hour 24": partial(updated_at, pattern=r".*T24:00:00\.000Z"),
    "a time of a day that does not exist": partial(updated_at, pattern=r"2026-02-30T.*"),
    "a time with one digit of the second": partial(updated_at, pattern=r".*\.\dZ"),
    "a time with two digits of the second": partial(updated_at, pattern=r".*\.\d\dZ"),
    "a booking has another time": lambda r: again(r, BOOKINGS, "booking_id", "created_at"),
    "a click has another hotel or customer": lambda r: (
        again(r, CLICKS, "click_id", "event_time") + again(r, CLICKS, "click_id", "customer_email")
    ),
}
"""Cases that are there at least once: their stories are long, or tell of several."""
