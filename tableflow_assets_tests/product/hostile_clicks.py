"""Clicks of guests who book, or do not, or whom nobody knows; and clicks that come again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tableflow_assets_tests.product.hostile_bookings import (
    INN,
    LONG_AGO,
    PALACE,
    booking,
    guest,
    somebody,
)
from tableflow_assets_tests.product.story import (
    DAY,
    HOUR,
    Draft,
    Draw,
    Story,
    by_a_slow_clock,
    in_turn,
)


def stories(draw: Draw) -> list[Story]:
    several = (
        (clicks_then_books, 2),
        (books_then_clicks, 1),
        (never_books, 2),
        (clicks_of_nobody_known, 2),
        (click_sent_again, 2),
        (click_sent_again_with_other_content, 1),
        (two_clicks_of_one_time, 2),
        (booking_moves_to_another_guest, 1),
        (click_sent_again_by_a_slow_clock, 2),
    )
    return [story(draw) for story, times in several for _ in range(times)]


def click(draw: Draw, email: str, at: datetime, **other: Any) -> Draft:
    value: dict[str, Any] = {
        "click_id": f"K-{draw.number()}",
        "customer_email": email,
        "hotel_id": draw.random.choice((INN, PALACE)),
        "action": "view_hotel",
        "event_time": at,
        "url": "https://river.example/",
        "user_agent": "Browser/1.0",
    } | other
    return Draft("clickstream", value["click_id"], value)


def clicks_then_books(draw: Draw) -> Story:
    email, at = somebody(draw), draw.moment()
    clicks = click(draw, email, at), click(draw, email, at + HOUR)
    guest_first = in_turn(guest(draw, email, LONG_AGO))
    return draw.mixed(guest_first, in_turn(*clicks, booking(draw, email, INN, at + DAY)))


def books_then_clicks(draw: Draw) -> Story:
    """And is not even known."""
    email, at = somebody(draw), draw.moment()
    return in_turn(booking(draw, email, INN, at), click(draw, email, at + HOUR))


def never_books(draw: Draw) -> Story:
    email, at = somebody(draw), draw.moment()
    clicks = [click(draw, email, at + draw.within(DAY)) for _ in range(3)]
    states = [guest(draw, email, LONG_AGO + days * DAY) for days in (2, 1)]
    return draw.mixed(in_turn(*clicks), in_turn(*states))


def clicks_of_nobody_known(draw: Draw) -> Story:
    """Not even by a state, which has no time."""
    email, at = somebody(draw), draw.moment()
    clicks = in_turn(click(draw, email, at), click(draw, email, at - HOUR))
    return draw.mixed(clicks, in_turn(guest(draw, email, "no time")))


def click_sent_again(draw: Draw) -> Story:
    email, at = somebody(draw), draw.moment()
    once = click(draw, email, at)
    return in_turn(once, click(draw, email, at - HOUR), once, once)


def click_sent_again_with_other_content(draw: Draw) -> Story:
    """Another hotel and time; and a click that turns out to be of somebody else."""
    email, other, at = somebody(draw), somebody(draw), draw.moment()
    first, moved = click(draw, email, at), click(draw, email, at + HOUR)
    again = click(draw, email, at - DAY, click_id=first.key)
    away = click(draw, other, at + HOUR, click_id=moved.key)
    return draw.mixed(in_turn(first, again), in_turn(moved, away))


def two_clicks_of_one_time(draw: Draw) -> Story:
    email, at = somebody(draw), draw.moment()
    clicks = [click(draw, email, at, hotel_id=hotel_id) for hotel_id in (INN, PALACE)]
    draw.random.shuffle(clicks)
    return in_turn(*clicks)


def booking_moves_to_another_guest(draw: Draw) -> Story:
    """The first one is a prospect again, the other one no longer."""
    first, second, at = somebody(draw), somebody(draw), draw.moment()
    clicks = [in_turn(click(draw, email, at)) for email in (first, second)]
    booked = booking(draw, first, INN, at)
    moved = booking(draw, second, INN, at, booking_id=booked.key)
    return draw.mixed(*clicks, in_turn(booked, moved))


def click_sent_again_by_a_slow_clock(draw: Draw) -> Story:
    email, at = somebody(draw), draw.moment()
    first = click(draw, email, at, hotel_id=INN)
    again = click(draw, email, at, hotel_id=PALACE, click_id=first.key)
    return in_turn(first, by_a_slow_clock(again))
