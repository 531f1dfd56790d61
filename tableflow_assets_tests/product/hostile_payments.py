"""Payments that come early, late, twice, or for no order; and orders that change after them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tableflow_assets_tests.product.story import (
    DAY,
    HOUR,
    MILLISECOND,
    Draft,
    Draw,
    Story,
    by_a_slow_clock,
    in_turn,
)

IN_TIME = timedelta(hours=96)
SHOPPERS = (9_001, 9_002)
"""Customers who have no part in the sales: payments only name them."""


def stories(draw: Draw) -> list[Story]:
    several = (
        (payment_before_its_order_arrives, 2),
        (payment_reported_weeks_late, 2),
        (payment_made_weeks_late, 2),
        (payment_before_the_order_date, 2),
        (only_the_second_payment_is_in_time, 2),
        (payments_at_the_bounds, 2),
        (same_time_twice, 2),
        (same_time_twice_at_once, 2),
        (earlier_payment_arrives_last, 2),
        (same_payment_again, 2),
        (order_moves_out_of_the_time_to_pay, 2),
        (order_moves_into_the_time_to_pay, 2),
        (never_paid, 2),
        (payment_without_order, 2),
        (order_zero, 1),
        (order_moves_by_a_slow_clock, 2),
        (payment_corrected_by_a_slow_clock, 2),
        (payments_of_one_time_by_slow_clocks, 2),
    )
    return [story(draw) for story, times in several for _ in range(times)]


def order(draw: Draw, number: int, orderdate: datetime, customerid: int | None = None) -> Draft:
    value = {
        "orderid": number,
        "customerid": draw.random.choice(SHOPPERS) if customerid is None else customerid,
        "orderdate": orderdate,
        "channel": draw.random.choice(("web", "mobile", "store")),
    }
    return Draft("shiftleft.public.orders", str(number), value)


def payment(draw: Draw, number: int | None, ts: datetime) -> Draft:
    code = f"CODE-{draw.number():04d}"
    value: dict[str, Any] = {
        "order_id": number,
        "product_id": draw.random.randint(1, 9),
        "customer_id": draw.random.choice(SHOPPERS),
        "confirmation_code": code,
        "cc_number": draw.random.choice((None, "0000123412341234", "0000567856785678")),
        "expiration": "11/29",
        "amount": draw.price(),
        "ts": ts,
    }
    return Draft("payments", code, value)


def payment_before_its_order_arrives(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    paid = payment(draw, number, placed + draw.within(IN_TIME))
    return in_turn(paid, order(draw, number, placed))


def payment_reported_weeks_late(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment() - 14 * DAY
    return in_turn(order(draw, number, placed), payment(draw, number, placed + draw.within(DAY)))


def payment_made_weeks_late(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment() - 21 * DAY
    paid = placed + 14 * DAY + draw.within(7 * DAY)
    return in_turn(order(draw, number, placed), payment(draw, number, paid))


def payment_before_the_order_date(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    return in_turn(order(draw, number, placed), payment(draw, number, placed - draw.within(DAY)))


def only_the_second_payment_is_in_time(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    too_early = payment(draw, number, placed - draw.within(DAY))
    in_time = payment(draw, number, placed + draw.within(DAY))
    return draw.mixed(in_turn(too_early), in_turn(in_time), in_turn(order(draw, number, placed)))


def payments_at_the_bounds(draw: Draw) -> Story:
    stories: list[Story] = []
    for age in (timedelta(0), -MILLISECOND, IN_TIME, IN_TIME + MILLISECOND):
        number, placed = draw.number(), draw.moment()
        drafts = order(draw, number, placed), payment(draw, number, placed + age)
        stories += [in_turn(draft) for draft in drafts]
    return draw.mixed(*stories)


def same_time_twice(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    paid = placed + draw.within(IN_TIME)
    twice = payment(draw, number, paid), payment(draw, number, paid)
    return draw.mixed(in_turn(order(draw, number, placed)), in_turn(*twice))


def same_time_twice_at_once(draw: Draw) -> Story:
    """Even Kafka's timestamp is the same: their partitions and offsets tell them apart."""
    number, placed = draw.number(), draw.moment()
    paid = placed + draw.within(IN_TIME)
    # The code that sorts last comes first.
    later, first = payment(draw, number, paid), payment(draw, number, paid)
    return [(first, later), (order(draw, number, placed),)]


def earlier_payment_arrives_last(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    early, late = placed + draw.within(DAY), placed + DAY + draw.within(10 * DAY)
    paid = payment(draw, number, late), payment(draw, number, early)
    return in_turn(order(draw, number, placed), *paid)


def same_payment_again(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    paid = payment(draw, number, placed + draw.within(IN_TIME))
    again = [paid] * draw.random.randint(2, 3)
    return draw.mixed(in_turn(*again), in_turn(order(draw, number, placed)))


def order_moves_out_of_the_time_to_pay(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    paid = payment(draw, number, placed + draw.within(DAY))
    moved = placed + draw.random.choice((-IN_TIME - DAY, DAY + HOUR))
    return in_turn(order(draw, number, placed), paid, order(draw, number, moved))


def order_moves_into_the_time_to_pay(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    too_late = payment(draw, number, placed + IN_TIME + draw.within(2 * DAY))
    return in_turn(order(draw, number, placed), too_late, order(draw, number, placed + 3 * DAY))


def never_paid(draw: Draw) -> Story:
    return in_turn(order(draw, draw.number(), draw.moment()))


def payment_without_order(draw: Draw) -> Story:
    return in_turn(payment(draw, draw.number(), draw.moment()))


def order_zero(draw: Draw) -> Story:
    """The first of the payments for nothing is in time for the order that has the number 0."""
    placed = draw.moment()
    numbers = [None, None, None, None, 0]
    draw.random.shuffle(numbers)
    paid = [payment(draw, number, placed + draw.within(IN_TIME)) for number in numbers]
    return draw.mixed(in_turn(*paid), in_turn(order(draw, 0, placed)))


def order_moves_by_a_slow_clock(draw: Draw) -> Story:
    number, placed = draw.number(), draw.moment()
    paid = payment(draw, number, placed + draw.within(DAY))
    moved = by_a_slow_clock(order(draw, number, placed + DAY + HOUR))
    return in_turn(order(draw, number, placed), paid, moved)


def payment_corrected_by_a_slow_clock(draw: Draw) -> Story:
    """With the same key, and so in the same partition: the first one there stays the first."""
    number, placed = draw.number(), draw.moment()
    paid = payment(draw, number, placed + draw.within(DAY))
    corrected = Draft(paid.topic, paid.key, paid.value | {"amount": draw.price()})
    return in_turn(order(draw, number, placed), paid, by_a_slow_clock(corrected))


def payments_of_one_time_by_slow_clocks(draw: Draw) -> Story:
    """They are in any of Kafka's partitions."""
    number, placed = draw.number(), draw.moment()
    paid = [payment(draw, number, placed + HOUR) for _ in range(4)]
    paid[1::2] = map(by_a_slow_clock, paid[1::2])
    return draw.mixed(in_turn(*paid), in_turn(order(draw, number, placed)))
