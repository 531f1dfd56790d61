"""Prices, customers, orders and lines that change, come late or never come."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from tableflow_assets_tests.product.hostile_payments import order
from tableflow_assets_tests.product.story import (
    DAY,
    MILLISECOND,
    Draft,
    Draw,
    Story,
    by_a_slow_clock,
    in_turn,
)

REGULAR = 9_003
"""A customer who buys what is hostile otherwise."""


def stories(draw: Draw) -> list[Story]:
    several = (
        (opening, 1),
        (price_changes, 2),
        (first_price_arrives_last, 1),
        (two_prices_of_one_time, 2),
        (two_prices_of_one_time_at_once, 1),
        (customer_renamed, 2),
        (two_customers_of_one_name, 2),
        (line_updated, 2),
        (line_moves_to_another_order, 1),
        (line_moves_to_an_order_that_never_comes, 1),
        (order_moves_to_another_customer, 1),
        (something_comes_after_the_line, 1),
        (something_never_comes, 1),
        (orders_of_45_days, 2),
        (updates_by_slow_clocks, 2),
        (price_that_is_no_number, 1),
    )
    return [story(draw) for story, times in several for _ in range(times)]


def product(draw: Draw, number: int, updatedat: datetime) -> Draft:
    value = {
        "productid": number,
        "brand": f"Brand {draw.random.randint(1, 3)}",
        "productname": f"Product {number}",
        "category": draw.random.choice(("kitchen", "garden")),
        "price": draw.price(),
        "updatedat": updatedat,
    }
    return Draft("shiftleft.public.products", str(number), value)


def customer(draw: Draw, number: int, name: str | None = None) -> Draft:
    value = {
        "customerid": number,
        "customername": name or f"Name {draw.number()}",
        "email": f"shopper{number}@shop.example",
        "city": draw.random.choice(("Aarau", "Bern")),
        "country": "Switzerland",
        "updatedat": draw.moment(),
    }
    return Draft("shiftleft.public.customers", str(number), value)


def line(draw: Draw, number: int, orderid: int, productid: int) -> Draft:
    value = {
        "orderitemid": number,
        "orderid": orderid,
        "productid": productid,
        "quantity": draw.random.randint(1, 5),
    }
    return Draft("shiftleft.public.order_items", str(number), value)


def sold(draw: Draw, productid: int, customerid: int, placed: datetime) -> Story:
    """An order of one line."""
    number = draw.number()
    item = line(draw, draw.number(), number, productid)
    return in_turn(order(draw, number, placed, customerid), item)


def sold_around(draw: Draw, productid: int, moments: list[datetime]) -> list[Story]:
    return [sold(draw, productid, REGULAR, moment) for moment in moments]


def opening(draw: Draw) -> Story:
    return in_turn(customer(draw, REGULAR))


def price_changes(draw: Draw) -> Story:
    number, first = draw.number(), draw.moment()
    second, third = first + 3 * DAY, first + 6 * DAY
    changes = [product(draw, number, moment) for moment in (first, second, third)]
    draw.random.shuffle(changes)
    around = [first - DAY, first, second - MILLISECOND, second, third + DAY]
    return draw.mixed(in_turn(*changes), *sold_around(draw, number, around))


def first_price_arrives_last(draw: Draw) -> Story:
    number, since = draw.number(), draw.moment()
    before = product(draw, number, since - 2 * DAY)
    around = sold_around(draw, number, [since - 3 * DAY, since - DAY])
    return [*in_turn(product(draw, number, since)), *draw.mixed(*around), *in_turn(before)]


def two_prices_of_one_time(draw: Draw) -> Story:
    number, since = draw.number(), draw.moment()
    prices = product(draw, number, since), product(draw, number, since)
    around = sold_around(draw, number, [since - DAY, since])
    return draw.mixed(in_turn(*prices), *around)


def two_prices_of_one_time_at_once(draw: Draw) -> Story:
    number, since = draw.number(), draw.moment()
    prices = product(draw, number, since), product(draw, number, since)
    return draw.mixed([prices], *sold_around(draw, number, [since + DAY]))


def customer_renamed(draw: Draw) -> Story:
    number, buyer, since = draw.number(), draw.number(), draw.moment()
    names = in_turn(customer(draw, buyer), customer(draw, buyer))
    return draw.mixed(
        in_turn(product(draw, number, since)), names, sold(draw, number, buyer, since + DAY)
    )


def two_customers_of_one_name(draw: Draw) -> Story:
    number, name, since = draw.number(), f"Name {draw.number()}", draw.moment()
    stories = [in_turn(product(draw, number, since))]
    for buyer in (draw.number(), draw.number()):
        stories += [in_turn(customer(draw, buyer, name)), sold(draw, number, buyer, since + DAY)]
    return draw.mixed(*stories)


def line_updated(draw: Draw) -> Story:
    number, buyer, orderid, item = (draw.number() for _ in range(4))
    placed = draw.moment()
    before, after = (line(draw, item, orderid, number) for _ in range(2))
    more = before.value["quantity"] + 1
    after = Draft(after.topic, after.key, after.value | {"quantity": more})
    there = in_turn(product(draw, number, placed), customer(draw, buyer))
    return draw.mixed(there, in_turn(order(draw, orderid, placed, buyer), before, after))


def line_moves_to_another_order(draw: Draw) -> Story:
    """The other order is of another customer."""
    number, item = draw.number(), draw.number()
    old, new, seller, buyer = (draw.number() for _ in range(4))
    placed = draw.moment()
    there = in_turn(product(draw, number, placed), customer(draw, seller), customer(draw, buyer))
    orders = order(draw, old, placed, seller), order(draw, new, placed + DAY, buyer)
    moves = line(draw, item, old, number), line(draw, item, new, number)
    return draw.mixed([*there, *in_turn(*orders)], in_turn(*moves))


def line_moves_to_an_order_that_never_comes(draw: Draw) -> Story:
    number, item, old, buyer = (draw.number() for _ in range(4))
    placed = draw.moment()
    there = in_turn(product(draw, number, placed), customer(draw, buyer))
    moves = line(draw, item, old, number), line(draw, item, draw.number(), number)
    return [*there, *in_turn(order(draw, old, placed, buyer), *moves)]


def order_moves_to_another_customer(draw: Draw) -> Story:
    number, orderid, seller, buyer = (draw.number() for _ in range(4))
    placed = draw.moment()
    there = in_turn(product(draw, number, placed), customer(draw, seller), customer(draw, buyer))
    moves = order(draw, orderid, placed, seller), order(draw, orderid, placed, buyer)
    item = in_turn(line(draw, draw.number(), orderid, number))
    return draw.mixed(there, in_turn(*moves), item)


def something_comes_after_the_line(draw: Draw) -> Story:
    """The order, the product or the customer."""
    stories = []
    for late in range(3):
        *parents, item = _sale(draw)
        stories.append(in_turn(*parents[:late], *parents[late + 1 :], item, parents[late]))
    return draw.mixed(*stories)


def something_never_comes(draw: Draw) -> Story:
    stories = []
    for missing in range(3):
        *parents, item = _sale(draw)
        stories.append(in_turn(*parents[:missing], *parents[missing + 1 :], item))
    return draw.mixed(*stories)


def _sale(draw: Draw) -> list[Draft]:
    number, buyer, orderid = draw.number(), draw.number(), draw.number()
    placed = draw.moment()
    return [
        order(draw, orderid, placed, buyer),
        product(draw, number, placed),
        customer(draw, buyer),
        line(draw, draw.number(), orderid, number),
    ]


def orders_of_45_days(draw: Draw) -> Story:
    """The newest order first moves ahead, and then the 30 days with it."""
    number, buyer, newest = draw.number(), draw.number(), draw.moment()
    ages = (45 * DAY, 30 * DAY + MILLISECOND, 30 * DAY, 15 * DAY, timedelta(0))
    sales = [sold(draw, number, buyer, newest - age) for age in ages]
    last, _ = sales[-1]
    late = newest + 10 * DAY
    orderid = last[0].value["orderid"]
    detour = in_turn(order(draw, orderid, late, buyer), order(draw, orderid, newest, buyer))
    second_line = in_turn(line(draw, draw.number(), orderid, number))
    there = in_turn(product(draw, number, newest - 50 * DAY), customer(draw, buyer))
    return draw.mixed(there, *sales[:-1], [*detour, *sales[-1]], second_line)


def updates_by_slow_clocks(draw: Draw) -> Story:
    """Of the line, the customer, the order, and of a price of the same time."""
    number, buyer, orderid, item = (draw.number() for _ in range(4))
    placed = draw.moment()
    before, after = line(draw, item, orderid, number), line(draw, item, orderid, number)
    more = Draft(after.topic, after.key, after.value | {"quantity": before.value["quantity"] + 1})
    pairs = (
        (before, more),
        (customer(draw, buyer), customer(draw, buyer)),
        (order(draw, orderid, placed, buyer), order(draw, orderid, placed + DAY, buyer)),
        (product(draw, number, placed), product(draw, number, placed)),
    )
    return draw.mixed(*(in_turn(first, by_a_slow_clock(then)) for first, then in pairs))


def price_that_is_no_number(draw: Draw) -> Story:
    buyer, placed = draw.number(), draw.moment()
    stories = [in_turn(customer(draw, buyer))]
    for price in (math.nan, draw.price()):
        number = draw.number()
        priced = product(draw, number, placed)
        odd = Draft(priced.topic, priced.key, priced.value | {"price": price})
        stories += [in_turn(odd), sold(draw, number, buyer, placed)]
    return draw.mixed(*stories)
